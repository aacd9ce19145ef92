"""What the figures were measured on."""

import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """Processor, cores, memory, kernel, compiler and interpreter."""

    cpu: str
    cores: int
    memory_gb: int
    kernel: str
    system: str
    python: str
    compiler: str
    load: float

    @property
    def host_class(self) -> str:
        """A short name for files: cores and processor, no host name."""
        return f"{self.cores}-core-{re.sub(r'[^a-z0-9]+', '-', self.cpu.lower()).strip('-')}"


def _first(path: str, pattern: str) -> str:
    found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
    return found.group(1).strip() if found else "unknown"


def look() -> Machine:
    """Reads /proc and asks the compiler."""
    compiler = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    memory = _first("/proc/meminfo", r"^MemTotal:\s+(\d+)")
    return Machine(
        cpu=_first("/proc/cpuinfo", r"^model name\s*:\s*(.+)$"),
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(int(memory) / 1024**2) if memory.isdigit() else 0,
        kernel=platform.release(),
        system=_first("/etc/os-release", r'^PRETTY_NAME="?([^"\n]+)'),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        compiler=compiler,
        load=os.getloadavg()[0],
    )
