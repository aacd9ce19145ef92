"""Ask a running lab things, by its control API. Blocking, standard library only."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException
from typing import Any, NoReturn
from urllib.parse import quote, urlsplit

from hedgerow.errors import HedgerowError


class LabDied(HedgerowError):
    """The lab did not start, ended, or does not answer; the message holds what it said, where it said something."""


class LabControl:
    """A lab at a URL."""

    name: str
    url: str
    """Without a path, e.g. "http://127.0.0.1:40123"; clients of OpenAI's API want `base_url`."""
    timeout: float = 20.0
    """Seconds for each question."""

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as its base URL."""
        return self.url + "/v1"

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """One request to the control API; the decoded JSON. Raises LabDied, or ValueError with the lab's complaint."""
        where = urlsplit(self.url)
        connection = HTTPConnection(where.hostname or "", where.port, timeout=self.timeout)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, HTTPException) as error:
            self.fail(f"the lab at {self.url} does not answer: {error!r}", error)
        finally:
            connection.close()
        if answer.status != 200:
            raise ValueError(f"the lab answered {answer.status}: {said.decode(errors='replace')}")
        return json.loads(said)

    def fail(self, what: str, cause: Exception | None = None) -> NoReturn:
        """Raise LabDied."""
        raise LabDied(what) from cause

    def stats(self) -> dict[str, Any]:
        """The counters (`hedgerow.lab.routes.StatsAnswer`)."""
        stats: dict[str, Any] = self.ask("GET", "/lab/stats")
        return stats

    def log(self, *, key: str | None = None, after: int = -1) -> list[dict[str, Any]]:
        """The latest requests (`hedgerow.lab.accounts.Record`), oldest first."""
        query = f"after={after}" + (f"&key={quote(key, safe='')}" if key is not None else "")
        records: list[dict[str, Any]] = self.ask("GET", f"/lab/log?{query}")["records"]
        return records

    def reset(self, *, seed: int | None = None) -> None:
        """New books and unseen keys; with `seed` also other draws."""
        self.ask("POST", "/lab/reset", {} if seed is None else {"seed": seed})

    def behave(self, **behaviour: object) -> None:
        """Change behaviour from now on: `script` (a dict or None) and `fault` (text or None)."""
        self.ask("POST", "/lab/behaviour", behaviour)
