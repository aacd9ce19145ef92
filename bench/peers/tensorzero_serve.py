"""Runs TensorZero's embedded gateway until stopped. Executed by the Python of TensorZero's own environment:

python tensorzero_serve.py CONFIG PORT_FILE
"""

import signal
import sys
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit


def main(config: str, port_file: str) -> None:
    """Starts the gateway on a port of its own choice and writes that port into `port_file`."""
    client = import_module("openai").OpenAI()
    import_module("tensorzero").patch_openai_client(client, config_file=config, async_setup=False)
    port = urlsplit(str(client.base_url)).port
    unfinished = Path(f"{port_file}.new")
    unfinished.write_text(str(port))
    unfinished.rename(port_file)
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
