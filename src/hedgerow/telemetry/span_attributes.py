"""What spans say, in the words of OpenTelemetry's GenAI conventions and, where they have none, in `hedgerow.*`.

https://github.com/open-telemetry/semantic-conventions-genai, `docs/gen-ai/client-inference.md` as of November 2026.
`gen_ai.usage.*` are on the span of the request alone, so that no backend that adds them up counts a token twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hedgerow.events import (
    AnswerNotJudged,
    AnswerRejected,
    AnswerRescued,
    AttemptEnded,
    AttemptLaunched,
    Bill,
    Failure,
    HedgeSkipped,
    Outcome,
    RequestFinished,
    RequestStarted,
    Role,
    Usage,
)
from hedgerow.telemetry.trace_context import Peer

Value = str | bool | int | float | tuple[str, ...]
Attributes = dict[str, Value]

_OPERATIONS = {
    "openai.chat": ("chat", "openai"),
    "openai.completions": ("text_completion", "openai"),
    "openai.embeddings": ("embeddings", "openai"),
    "openai.responses": ("chat", "openai"),
    "anthropic.messages": ("chat", "anthropic"),
    "gemini.generate": ("generate_content", "gcp.gemini"),
}
"""`gen_ai.operation.name` and `gen_ai.provider.name` by protocol."""
_PROVIDERS = {
    "api.openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "cognitiveservices.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "amazonaws.com": "aws.bedrock",
    "api.mistral.ai": "mistral_ai",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
    "api.cohere.com": "cohere",
    "api.cohere.ai": "cohere",
    "ml.cloud.ibm.com": "ibm.watsonx.ai",
}
"""The conventions' well-known `gen_ai.provider.name`, by the end of the host's name."""
_FAILED = (Outcome.FAILED, Outcome.FAILED_AFTER_COMMIT)
OTHER = "_OTHER"
"""`error.type` where no class of failure is known."""


def provider_of(host: str) -> str | None:
    """The well-known name of the provider at this host; None for any other."""
    return next((name for end, name in _PROVIDERS.items() if host == end or _ends(host, end)), None)


def _ends(host: str, end: str) -> bool:
    # Vertex AI puts its region in front with a dash: europe-west4-aiplatform.googleapis.com
    return host.endswith((f".{end}", f"-{end}"))


def span_name(protocol: str, model: str | None, route: str) -> str:
    """`{gen_ai.operation.name} {gen_ai.request.model}`; of what is no inference the protocol and the route."""
    if protocol in _OPERATIONS:
        return f"{_OPERATIONS[protocol][0]} {model or route}"
    return f"{protocol} {route}"


def _inference(protocol: str, model: str | None, *, stream: bool, provider: str | None = None) -> Attributes:
    if protocol not in _OPERATIONS:
        return {}
    operation, own = _OPERATIONS[protocol]
    said: Attributes = {"gen_ai.operation.name": operation, "gen_ai.provider.name": provider or own}
    if model is not None:
        said["gen_ai.request.model"] = model
    if stream:
        said["gen_ai.request.stream"] = True
    return said


def of_start(event: RequestStarted) -> Attributes:
    """Of a request that begins."""
    said = _inference(event.protocol, event.model, stream=event.stream)
    said |= {
        "hedgerow.request.id": event.request_id,
        "hedgerow.route": event.route,
        "hedgerow.protocol": event.protocol,
    }
    if event.tenant:
        said["hedgerow.tenant"] = event.tenant
    if event.arm is not None:
        said["hedgerow.experiment.arm"] = event.arm.value
    return said


def of_launch(event: AttemptLaunched, request: RequestStarted, peer: Peer | None) -> Attributes:
    """Of an attempt that begins."""
    provider = None if peer is None else peer.provider
    said = _inference(request.protocol, event.model, stream=False, provider=provider)
    said |= {
        "hedgerow.request.id": event.request_id,
        "hedgerow.route": request.route,
        "hedgerow.attempt": event.attempt,
        "hedgerow.role": event.role.value,
        "hedgerow.target": event.target,
    }
    if peer is not None:
        said |= {"server.address": peer.host, "server.port": peer.port}
    return said


def of_attempt(event: AttemptEnded, request: RequestStarted) -> Attributes:
    """Of an attempt that is over."""
    said: Attributes = {"hedgerow.outcome": event.outcome.value, "hedgerow.received_bytes": event.received_bytes}
    if request.protocol in _OPERATIONS:
        said |= _answer(event)
    if event.status is not None:
        said["http.response.status_code"] = event.status
    if event.sent_at is not None:
        said["hedgerow.sent_after"] = event.sent_at - event.launched_at
    if event.headers_at is not None:
        said["hedgerow.headers_after"] = event.headers_at - event.launched_at
    if event.service_tier is not None:
        said["hedgerow.service_tier"] = event.service_tier
    if event.usage is not None:
        said |= _tokens(event.usage, _OURS) | {"hedgerow.usage.source": event.usage.source.value}
    if event.outcome in _FAILED:
        said["error.type"] = error_type(event.failure)
    return said


def _answer(event: AttemptEnded) -> Attributes:
    said: Attributes = {}
    if event.stream:
        said["gen_ai.request.stream"] = True
        if event.first_token_at is not None:
            said["gen_ai.response.time_to_first_chunk"] = event.first_token_at - event.launched_at
    if event.finish_reason is not None:
        said["gen_ai.response.finish_reasons"] = (event.finish_reason,)
    return said


def of_note(event: AnswerRejected | AnswerNotJudged | AnswerRescued | HedgeSkipped) -> Attributes:
    """Of something that happened on the way."""
    match event:
        case HedgeSkipped():
            detail = {"hedgerow.detail": event.detail} if event.detail else {}
            return {"hedgerow.reason": event.reason.value, "hedgerow.role": event.role.value, **detail}
        case AnswerRejected():
            verdict: Attributes = {"hedgerow.gate": event.gate, "hedgerow.detail": event.detail}
            return verdict | {"hedgerow.delivered": event.delivered}
        case AnswerNotJudged():
            return {"hedgerow.attempt": event.attempt, "hedgerow.detail": event.why}
        case AnswerRescued():
            return {
                "hedgerow.attempt": event.attempt,
                "hedgerow.target": event.target,
                "hedgerow.chars": event.chars,
            }


def of_bill(bill: Bill) -> Attributes:
    """Of what an attempt comes to."""
    said: Attributes = {"hedgerow.cost.certainty": bill.certainty.value}
    for name, nanousd in (("nanousd", bill.nanousd), ("least_nanousd", bill.least), ("most_nanousd", bill.most)):
        if nanousd is not None:
            said[f"hedgerow.cost.{name}"] = nanousd
    return said


def of_finish(event: RequestFinished, ends: Mapping[int, AttemptEnded], roles: Iterable[Role]) -> Attributes:
    """Of a request that is over, which had attempts in these `roles`."""
    said: Attributes = {
        "hedgerow.outcome": event.outcome.value,
        "hedgerow.attempts": event.attempts,
        "hedgerow.hedged": any(role in (Role.HEDGE, Role.RACER) for role in roles),
    }
    if event.status is not None:
        said["http.response.status_code"] = event.status
    if event.gate is not None:
        said["hedgerow.gate"] = event.gate
    if event.unhedged_at is not None:
        said["hedgerow.unhedged_first_token_after"] = event.unhedged_at - event.started_at
    if event.protocol in _OPERATIONS:
        if event.stream and event.first_token_at is not None:
            said["gen_ai.response.time_to_first_chunk"] = event.first_token_at - event.started_at
        if event.usage is not None:
            said |= _tokens(event.usage, _THEIRS)
    winner = None if event.winner is None else ends.get(event.winner)
    if winner is not None:
        said |= {"hedgerow.winner.attempt": winner.attempt, "hedgerow.winner.target": winner.target}
        if event.protocol in _OPERATIONS and winner.finish_reason is not None:
            said["gen_ai.response.finish_reasons"] = (winner.finish_reason,)
    return said


def of_bills(bills: Iterable[Bill]) -> Attributes:
    """Of what a request comes to, all its attempts together, where every one has a price."""
    costs = [bill.nanousd for bill in bills]
    known = [cost for cost in costs if cost is not None]
    return {"hedgerow.cost.nanousd": sum(known)} if known and len(known) == len(costs) else {}


_COUNTED = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens", "reasoning_tokens")
_THEIRS = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_input_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_write.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}
_OURS = {name: f"hedgerow.usage.{name}" for name in _COUNTED}


def _tokens(usage: Usage, names: Mapping[str, str]) -> Attributes:
    counts = ((name, getattr(usage, field)) for field, name in names.items())
    return {name: count for name, count in counts if count is not None}


def error_type(failure: Failure | None) -> str:
    """The class of a failure, one of a few words."""
    return OTHER if failure is None else failure.kind.value
