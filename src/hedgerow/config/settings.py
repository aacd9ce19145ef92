"""The whole configuration, and how a request's model finds its route."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PrivateAttr, model_validator

from hedgerow.config import check, check_meant
from hedgerow.config.base import Model
from hedgerow.config.fields import problem
from hedgerow.config.problem import show_path
from hedgerow.config.route import Route
from hedgerow.config.server import ServerSettings
from hedgerow.config.target import Target
from hedgerow.policy.naming import RouteNames


class Settings(Model):
    """Everything `hedgerow serve` needs to know. Made by `load`, `loads` or `from_environment`, or in code."""

    targets: Annotated[dict[str, Target], Field(min_length=1)]
    """Where attempts can go, by a name of your choice."""
    routes: Annotated[dict[str, Route], Field(min_length=1)]
    """What clients can ask for: the name in the request's `model` field, and the targets that answer it. A name \
that ends in `*` stands for all names that start so (`claude-*`); `*` alone for every model not named otherwise."""
    server: ServerSettings = ServerSettings()

    _warnings: list[str] = PrivateAttr(default_factory=list)

    @property
    def warnings(self) -> list[str]:
        """What works but is probably not meant, one line each, with file and line when read from a file."""
        return list(self._warnings)

    @property
    def default_route(self) -> str:
        """The route of requests that name no model."""
        return self.server.default_route or next(iter(self.routes))

    def route_for(self, model: str | None) -> str | None:
        """The route that serves `model`: its own name, else the longest matching pattern; None when there is none."""
        if model is None:
            return self.default_route
        return RouteNames(self.routes).find(model)

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        found = check.contradictions(self.targets, self.routes, self.server, known=self.targets)
        if found:
            raise problem("; ".join(f"{show_path(each.path)}: {each.text}" for each in found))
        self._warnings[:] = [f"{show_path(each.path)}: {each.text}" for each in check_meant.warnings(self)]
        return self
