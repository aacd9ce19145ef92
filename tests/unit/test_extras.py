"""How to install what is missing, from where hedgerow came."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from hedgerow import extras

URL = "https://example.com/hedgerow"


@pytest.mark.parametrize(
    ("came_from", "told"),
    [
        (None, "pip install 'hedgerow[gates]'"),
        ({"url": "file:///my/rows", "dir_info": {}}, "pip install '/my/rows[gates]'"),
        ({"url": "file:///a%20row", "dir_info": {"editable": True}}, "pip install -e '/a row[gates]'"),
        ({"url": f"{URL}.whl", "archive_info": {}}, f"pip install 'hedgerow[gates] @ {URL}.whl'"),
        ({"url": URL, "vcs_info": {"vcs": "git", "commit_id": "a1"}}, f"pip install 'hedgerow[gates] @ git+{URL}'"),
        (
            {"url": URL, "vcs_info": {"vcs": "git", "commit_id": "a1", "requested_revision": "main"}},
            f"pip install 'hedgerow[gates] @ git+{URL}@main'",
        ),
    ],
)
def test_it_comes_from_where_hedgerow_did(
    came_from: dict[str, object] | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = tmp_path / "hedgerow-9.dist-info"
    known.mkdir()
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: hedgerow\nVersion: 9\n")
    if came_from is not None:
        (known / "direct_url.json").write_text(json.dumps(came_from))
    monkeypatch.syspath_prepend(tmp_path)
    assert extras.install("gates") == told


def test_where_it_was_not_installed_at_all_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", unknown)
    assert extras.install("gates") == "pip install 'hedgerow[gates]'"
