"""What a gate sees of an answer, the same for every protocol. `wire` makes it, `policy.gates` judges it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from hedgerow.unshown import Unshown


class Finish(StrEnum):
    """Why the model stopped, as each protocol says it in its own words.

    | here             | chat, completions                      | Responses                      | Messages | Gemini |
    |------------------|----------------------------------------|--------------------------------|----------|--------|
    | `stop`           | `stop`                                 | `completed`                    | `end_turn`, `stop_sequence` | `STOP` |
    | `length`         | `length`                               | `incomplete: max_output_tokens` | `max_tokens`, `model_context_window_exceeded` | `MAX_TOKENS` |
    | `tool_calls`     | `tool_calls`, `function_call`          | `completed`, with a call for the client | `tool_use` | `STOP`, likewise |
    | `content_filter` | `content_filter`                       | `incomplete: content_filter`   | (none)   | a blocked prompt, `SAFETY`, `RECITATION`, ... |
    | `refusal`        | `stop`, with a `refusal` and no text   | `completed`, likewise          | `refusal` | (none) |
    | `other`          | anything else                          | anything else                  | `pause_turn`, ... | `MALFORMED_FUNCTION_CALL`, ... |

    A `stop` with tool calls is `tool_calls`; a whole answer that says nothing of its end is `other`.
    """  # noqa: E501  # a table

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    OTHER = "other"


class Answer(Unshown, msgspec.Struct, frozen=True, gc=False):
    """One answer, or what has come of a streamed one.

    `text` is all that the caller would read: text blocks joined, no reasoning, no tool calls. Of an endpoint without
    such text (embeddings, a route's own endpoints) it is the body, where that is text. `finish` is None where the
    protocol has no such word, or it has not come yet. `refusal` is what a structured refusal says, "" where it says
    nothing more. `tool_calls`: there are calls for the client to run; `media`: images, sound, files, code that was run.
    `output_tokens` is what was reported, without reasoning where that is told apart; None where several choices share
    it. `complete` is False for the start of a stream. `others` are the further choices of one answer (`n`), each as an
    answer of its own.
    """

    text: str
    finish: Finish | None = None
    refusal: str | None = None
    tool_calls: bool = False
    media: bool = False
    output_tokens: int | None = None
    complete: bool = True
    others: tuple[Answer, ...] = ()
