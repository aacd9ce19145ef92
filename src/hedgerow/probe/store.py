"""The file in which results are kept: written by `hedgerow probe`, read by `hedgerow serve`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hedgerow.errors import ConfigError
from hedgerow.policy.cancelling import Probed
from hedgerow.probe.result import Finding, Phase, Result

if TYPE_CHECKING:
    from hedgerow.config import Settings

MAX_AGE = timedelta(days=30)
"""Results older than this say nothing any more: servers are updated, and providers change."""


class Kept(msgspec.Struct, frozen=True):
    """The file: results by the name of their target."""

    version: int
    targets: dict[str, Result]


_VERSION = 1
_decoder = msgspec.json.Decoder(Kept)


def file_of(settings: Settings, config: Path | None) -> Path:
    """Where results of the configuration in this file are kept; of one without a file, in the folder one is in."""
    if settings.server.probes is not None:
        return settings.server.probes
    return Path("hedgerow.probes.json") if config is None else config.with_suffix(".probes.json")


def read(file: Path) -> dict[str, Result]:
    """The results in the file, none where there is no file. Raises `ConfigError` for one that is something else."""
    try:
        kept = _decoder.decode(file.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError([f"{file}: cannot be read: {error.strerror}"]) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError([f"{file}: is not what hedgerow probe writes ({error}); remove it and probe again"]) from None
    if kept.version != _VERSION:
        raise ConfigError([f"{file}: is of another version of hedgerow; remove it and probe again"])
    return kept.targets


def write(file: Path, results: Mapping[str, Result]) -> None:
    """Put these results beside those of other targets. Raises `ConfigError`."""
    kept = Kept(_VERSION, {**read(file), **results})
    new = file.with_name(file.name + ".new")
    try:
        new.write_bytes(msgspec.json.format(msgspec.json.encode(kept)) + b"\n")
        os.replace(new, file)
    except OSError as error:
        raise ConfigError(
            [f"{file}: cannot be written: {error.strerror} (server.probes takes another place)"]
        ) from None


def probed(settings: Settings, file: Path, now: datetime) -> tuple[dict[str, Probed], list[str]]:
    """What the file says of the targets as they are configured; and words on what it says that does not count."""
    try:
        results = read(file)
    except ConfigError as error:
        return {}, list(error.problems)
    known, remarks = {}, []
    for name, result in results.items():
        if name not in settings.targets:
            continue
        why = _stale(result, settings.targets[name].base_url, settings.targets[name].sent_model, now)
        if why is None:
            known[name] = Probed(result.streams, result.whole, _words(result), f"{result.at:%Y-%m-%d}")
        else:
            remarks.append(f"{file}: what is said of target {name} does not count: {why}; hedgerow probe {name}")
    return known, remarks


def _stale(result: Result, base_url: str, model: str | None, now: datetime) -> str | None:
    """Why a result says nothing of the target as it is now."""
    if result.base_url != base_url:
        return "it was probed at another base_url"
    if model is not None and result.model != model:
        return f"it was probed with model {result.model}"
    if now - result.at > MAX_AGE:
        return f"it was probed more than {MAX_AGE.days} days ago"
    return None


def _words(result: Result) -> str:
    at = f"probed {result.at:%Y-%m-%d}"
    ran_on = [each for each in result.findings if each.stopped is False]
    if ran_on:
        return f"{', '.join(dict.fromkeys(map(_went_on, ran_on)))}; {at}"
    if result.witness is None:
        return f"nobody upstream can tell; {at}"
    return f"{result.witness} says so; {at}"


def _went_on(finding: Finding) -> str:
    what = "whole answers" if finding.phase is Phase.WHOLE else f"streams ({finding.phase})"
    return what if finding.tokens_after is None else f"{what}: {finding.tokens_after} tokens more"
