"""How to add an extra to hedgerow from where it came: a checkout, a repository, a file or an index of packages."""

from __future__ import annotations


def install(extra: str) -> str:
    """The command that brings an extra."""
    import json  # this and the next are needed where something is missing, and nowhere else
    from importlib.metadata import PackageNotFoundError, distribution
    from shlex import quote

    try:
        known = distribution("hedgerow").read_text("direct_url.json")
    except PackageNotFoundError:
        known = None
    came_from = json.loads(known) if known else {}
    return f"pip install {'-e ' if _editable(came_from) else ''}{quote(_requirement(extra, came_from))}"


def _editable(came_from: dict[str, dict[str, object]]) -> bool:
    return bool(came_from.get("dir_info", {}).get("editable"))


def _requirement(extra: str, came_from: dict[str, object]) -> str:
    """What pip is to be given, by what the installer wrote down of where it came from (PEP 610)."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    match came_from:
        case {"url": str(url), "dir_info": _}:
            return f"{url2pathname(urlsplit(url).path)}[{extra}]"
        case {"url": str(url), "vcs_info": {"vcs": str(vcs), "requested_revision": str(revision)}}:
            return f"hedgerow[{extra}] @ {vcs}+{url}@{revision}"
        case {"url": str(url), "vcs_info": {"vcs": str(vcs)}}:
            return f"hedgerow[{extra}] @ {vcs}+{url}"
        case {"url": str(url)}:
            return f"hedgerow[{extra}] @ {url}"
    return f"hedgerow[{extra}]"
