"""From settings to the blueprint, of the gateway's own side."""

from __future__ import annotations

from hedgerow import config
from hedgerow.gateway.blueprint import Certificate, ServerBlueprint, TracesBlueprint
from hedgerow.http.limits import Limits as HttpLimits
from hedgerow.ledger.settings import LedgerSettings


def server_of(server: config.ServerSettings) -> ServerBlueprint:
    """The gateway's own side."""
    limits, timeouts, tls = server.limits, server.timeouts, server.tls
    return ServerBlueprint(
        host=server.listen.host,
        port=server.listen.port,
        reuse_port=server.reuse_port,
        certificate=None if tls is None else Certificate(cert=str(tls.cert), key=str(tls.key)),
        api_keys=tuple(key.get_secret_value() for key in server.api_keys),
        http=HttpLimits(
            header_bytes=limits.header_bytes,
            body_bytes=limits.body_bytes,
            header_timeout=timeouts.header,
            body_timeout=timeouts.body,
            idle_timeout=timeouts.idle,
        ),
        held_bytes=limits.held_bytes,
        answer_bytes=limits.answer_bytes,
        replay_bytes=limits.replay_bytes,
        drain=timeouts.drain,
        log_level=server.log_level,
        log_format=server.log_format,
        access_log=server.access_log,
        traces=None if server.traces is None else _traces(server.traces),
        event_log=None if server.event_log is None else str(server.event_log),
        admin_token=server.admin.secret,
        metrics=server.metrics.enabled,
        metrics_tokens=_scrapers(server),
        metrics_shared=None if server.metrics.shared is None else str(server.metrics.shared),
        reload=server.reload,
        ledger=_ledger(server.ledger),
        prices_every=server.prices.update,
        redis=None if server.redis is None else server.redis.get_secret_value(),
    )


def _ledger(ledger: config.Ledger) -> LedgerSettings | None:
    if ledger.url is None:
        return None
    return LedgerSettings(
        url=ledger.url.get_secret_value(),
        flush=ledger.flush,
        keep=ledger.keep,
        keep_hourly=ledger.keep_hourly,
        queue=ledger.queue,
        content=ledger.content_bytes if ledger.content else None,
    )


def _scrapers(server: config.ServerSettings) -> tuple[str, ...] | None:
    """The keys of which one is to be presented for metrics; None: none is."""
    own, admin = server.metrics.secret, server.admin.secret
    keys = [key.get_secret_value() for key in server.api_keys] if own is None else [own]
    if admin is not None:
        keys.append(admin)
    return None if server.metrics.public or not keys else tuple(keys)


def _traces(traces: config.Traces) -> TracesBlueprint:
    headers = tuple((name, value.get_secret_value()) for name, value in traces.headers.items())
    return TracesBlueprint(
        endpoint=traces.endpoint, headers=headers, service_name=traces.service_name, sample=traces.sample
    )
