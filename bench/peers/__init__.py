"""The candidates of the benchmark, one module each: how to install, configure and start one."""

from bench.peer import Peer
from bench.peers.envoy import ENVOY
from bench.peers.hedgerow import HEDGEROW
from bench.peers.litellm import LITELLM
from bench.peers.nginx import NGINX
from bench.peers.portkey import PORTKEY
from bench.peers.tensorzero import TENSORZERO
from bench.peers.vllm_router import VLLM_ROUTER

ALL: tuple[Peer, ...] = (HEDGEROW, NGINX, ENVOY, VLLM_ROUTER, TENSORZERO, PORTKEY, LITELLM)
QUICK: tuple[Peer, ...] = (HEDGEROW, NGINX, ENVOY)
