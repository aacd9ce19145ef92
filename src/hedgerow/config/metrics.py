"""What Prometheus may scrape, and who."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import SecretStr, model_validator

from hedgerow.config.base import Model
from hedgerow.config.fields import FLAG, Leaf, check_text, problem
from hedgerow.config.network import TOKEN, TOKEN_FILE, SecretFile


def _parse_folder(value: object, folder: Path) -> Path | None:
    if value is None:
        return None
    path = folder / Path(check_text(value)).expanduser()
    if path.exists() and not path.is_dir():
        raise problem(f"{path} is no folder")
    if not path.parent.is_dir():
        raise problem(f"there is no folder {path.parent}")
    return path


_FOLDER = Leaf(_parse_folder, "path", {"type": ["string", "null"], "minLength": 1})
"""A folder that will be written to; relative paths start from the configuration file's folder."""


class Metrics(Model):
    """Metrics for Prometheus at `/metrics` ([all of them](metrics.md)), and who may scrape them: who presents the
    `token`, or one of `api_keys` where there is none, or the admin token; without any of these, whoever can connect.
    """

    enabled: Annotated[bool, FLAG] = True
    """Whether anything is counted: that takes about an eighth of the CPU time of a request."""
    token: Annotated[SecretStr | None, TOKEN] = None
    """What must come as `Authorization: Bearer`: at least 16 characters."""
    token_file: Annotated[SecretFile | None, TOKEN_FILE] = None
    """A file that holds the token, instead of `token`."""
    public: Annotated[bool, FLAG] = False
    """Whoever can connect may scrape, whatever keys there are."""
    shared: Annotated[Path | None, _FOLDER] = None
    """A folder on this machine in which several processes on one port (see `reuse_port`) keep what they have counted, \
so that a scrape of any of them shows the sum. It is made if it is not there."""

    @property
    def secret(self) -> str | None:
        """The token in the clear; None when there is none."""
        token = self.token if self.token_file is None else self.token_file.secret
        return None if token is None else token.get_secret_value()

    @model_validator(mode="after")
    def _one_way(self) -> Metrics:
        if self.token is not None and self.token_file is not None:
            raise problem("is given twice: drop token or token_file", at=("token_file",))
        if self.public and self.secret is not None:
            raise problem("means that no token is asked for: drop public, or the token", at=("public",))
        return self
