"""Where reports of usage in OpenAI's form have a model's reasoning."""

from __future__ import annotations


def output_with_reasoning(read: int | None, made: int | None, thought: int | None, total: object) -> int | None:
    """All tokens of an answer, reasoning among them.

    OpenAI counts it in what was `made`; xAI, and Google where it speaks OpenAI's API, beside that and only in the
    `total`, Google without saying what it is.
    """
    if read is None or made is None or not isinstance(total, int):
        return made
    beside = total - read - made
    return made + beside if beside > 0 and (thought is None or thought == beside) else made
