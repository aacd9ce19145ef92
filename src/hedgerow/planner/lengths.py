"""How long requests take because they are long: by their prompts and, where whole answers are timed, by those."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.planner.log import Floats, Ints, Log

_LEAST = 20
"""Answers of known length from which on it is told how times go by it."""


def logs_of(answered: Log) -> Floats:
    """Logarithms of how long answers took."""
    return np.log(np.maximum(answered.ttft, 1e-6))


def without_size(logs: Floats, tokens: Ints) -> tuple[Floats, float]:
    """Log latencies without what one length explains, with mean 0, and the share that it explains."""
    if len(logs) < 3:
        return logs - logs.mean() if len(logs) else logs, 0.0
    length = np.log(np.maximum(tokens, 1))
    groups, which = np.unique(np.floor(length * 2), return_inverse=True)  # half an e-fold each: no shape is assumed
    means = np.bincount(which, weights=logs) / np.bincount(which)
    residual = logs - means[which]
    whole = float(logs.var())
    return residual, 0.0 if whole == 0.0 or len(groups) < 2 else 1.0 - float(residual.var()) / whole


def without_length(answered: Log) -> tuple[Floats, float | None]:
    """Log latencies of answers without what the sizes of prompts and, where whole answers are timed, the lengths of
    these explain, with mean 0, and the share that they explain together; None where neither is known.
    """
    logs = logs_of(answered)
    if not len(logs):
        return logs, None
    prompts = bool((answered.input_tokens > 0).any())
    plain, explained = without_size(logs, answered.input_tokens) if prompts else (logs - logs.mean(), None)
    if not by_answers(answered):
        return plain, explained
    rest = logs - expected(answered, answered)
    known = ~np.isnan(rest)
    rest = np.where(known, rest - rest[known].mean(), plain)
    whole = float(logs.var())
    return rest, max(1.0 - float(rest.var()) / whole, 0.0) if whole else 0.0


def lengths(answered: Log, of: Log) -> Floats:
    """How long requests `of` are at those that were answered, as logarithms, nan where that is not known: by tokens of
    the prompt, or by what the whole answer should take where its length is known and it is what is timed.
    """
    if by_answers(answered):
        return expected(answered, of)
    return np.where(of.input_tokens > 0, np.log(np.maximum(of.input_tokens, 1)), np.nan)


def by_answers(log: Log) -> bool:
    """Whether its times grow with the length of answers, and it says how long these were."""
    return not log.of_first_token and int((_known(log) & ~log.failed).sum()) >= _LEAST


def expected(answered: Log, of: Log) -> Floats:
    """Logarithms of what requests `of` should take by the lengths of their prompts and answers, as at those that were
    answered: a constant and so much for each token, none of them negative. nan where the answer's length is not known.

    Relative errors are made small, each of which is below 1 for whatever is slow: stragglers hardly count.
    """
    used = _known(answered)
    prompts = answered.input_tokens[answered.input_tokens > 0]
    usual = float(np.median(prompts)) if len(prompts) else 0.0
    took = np.maximum(answered.ttft[used], 1e-6)
    weights = _not_negative(_columns(answered, usual)[used] / took[:, None])
    asked = np.maximum(_columns(of, usual) @ weights, 1e-6)
    return np.where(_known(of), np.log(asked), np.nan)


def _known(log: Log) -> npt.NDArray[np.bool_]:
    return np.zeros(len(log), dtype=bool) if log.output_tokens is None else log.output_tokens > 0


def _columns(log: Log, usual: float) -> Floats:
    """One, tokens of the prompt (the usual number where they are not known) and of the answer."""
    answers = np.zeros(len(log)) if log.output_tokens is None else log.output_tokens
    prompts = np.where(log.input_tokens > 0, log.input_tokens, usual)
    return np.stack([np.ones(len(log)), prompts, answers], axis=1)


def _not_negative(columns: Floats) -> Floats:
    """Weights with which the sum of columns is nearest to 1 in each row: those that would be negative are left out."""
    kept = [place for place in range(columns.shape[1]) if columns[:, place].any()]
    weights = np.zeros(columns.shape[1])
    while kept:
        found = np.linalg.lstsq(columns[:, kept], np.ones(len(columns)), rcond=None)[0]
        if (found >= 0.0).all():
            weights[kept] = found
            break
        kept.pop(int(np.argmin(found)))
    return weights
