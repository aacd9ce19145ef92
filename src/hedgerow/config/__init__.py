"""hedgerow.yaml to typed settings: every key documented, every fault named with its file, line and key.

load, loads            read a file or a text; raise ConfigError with all problems at once
from_environment       settings from known API keys when there is no file
Settings               the result; Target, Route, ServerSettings its parts
json_schema            for editors
describe, all_keys     the reference page, the list of keys
litellm.convert        imports a LiteLLM config
template.TEMPLATE      what `hedgerow init` writes
"""

from __future__ import annotations

from hedgerow.config.describe import all_keys, describe
from hedgerow.config.environment import from_environment
from hedgerow.config.gates import Gates
from hedgerow.config.hedge import Cap, Hedge, Outage, Spend
from hedgerow.config.ledger import Ledger
from hedgerow.config.load import load, loads
from hedgerow.config.network import Address, SecretFile
from hedgerow.config.price import Price
from hedgerow.config.route import Route, Timeouts
from hedgerow.config.schema import json_schema
from hedgerow.config.server import Limits, ServerSettings, ServerTimeouts, ServerTls
from hedgerow.config.settings import Settings
from hedgerow.config.target import Breaker, Connections, Target, TargetTls
from hedgerow.config.traces import Traces

__all__ = [
    "Address",
    "Breaker",
    "Cap",
    "Connections",
    "Gates",
    "Hedge",
    "Ledger",
    "Limits",
    "Outage",
    "Price",
    "Route",
    "SecretFile",
    "ServerSettings",
    "ServerTimeouts",
    "ServerTls",
    "Settings",
    "Spend",
    "Target",
    "TargetTls",
    "Timeouts",
    "Traces",
    "all_keys",
    "describe",
    "from_environment",
    "json_schema",
    "load",
    "loads",
]
