"""Installs peers under bench/.peers on first use, each in a folder of its own. Nothing else on the machine changes."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PEERS_HOME = Path(__file__).parent / ".peers"


class CannotInstall(Exception):
    """A peer cannot be installed here; the message is the reason that goes into the table."""


def run(argv: Sequence[str], *, cwd: Path, limit: float = 900.0) -> str:
    """Runs a command and returns its standard output; its last line of complaint becomes the reason of a failure."""
    name = Path(argv[0]).name
    try:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=limit, check=False)
    except FileNotFoundError:
        raise CannotInstall(f"{name} is not on this machine") from None
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"{name} took more than {limit:.0f} s") from None
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise CannotInstall(f"{name}: {lines[-1][:200] if lines else 'failed without a word'}")
    return done.stdout


def _once(name: str, recipe: Sequence[str], build: Callable[[Path], None]) -> Path:
    """The folder of a peer, built unless the same recipe built it before; a half-built one is built again."""
    home = PEERS_HOME / name
    stamp = home / "recipe.json"
    if stamp.exists() and json.loads(stamp.read_text()) == list(recipe):
        return home
    print(f"  installing {name}: {' '.join(recipe)} …", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    build(home)
    stamp.write_text(json.dumps(list(recipe)))
    return home


def pip(name: str, *requirements: str) -> Path:
    """A virtual environment with these requirements; returns its `bin` folder."""

    def build(home: Path) -> None:
        run([sys.executable, "-m", "venv", "venv"], cwd=home)
        run(["venv/bin/python", "-m", "pip", "install", "--quiet", "--prefer-binary", *requirements], cwd=home)

    return _once(name, requirements, build) / "venv" / "bin"


def pip_into(name: str, python: Path, requirements: Path) -> Path:
    """A folder with these locked requirements for another interpreter, which need not have pip or venv."""

    def build(home: Path) -> None:
        for_python = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--target", "site"]
        run([*for_python, "--require-hashes", "-r", str(requirements)], cwd=home)

    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]
    return _once(name, [str(python), f"{requirements.name}:{digest}"], build) / "site"


def pip_version(bin_dir: Path, package: str) -> str:
    """The installed version of a package of such an environment."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return run([str(bin_dir / "python"), "-c", code], cwd=bin_dir).strip()


def npm(name: str, package: str, version: str, overrides: Mapping[str, str]) -> Path:
    """A folder with this npm package in `node_modules`."""
    manifest = {"private": True, "dependencies": {package: version}, "overrides": dict(overrides)}

    def build(home: Path) -> None:
        (home / "package.json").write_text(json.dumps(manifest, indent=2))
        run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"], cwd=home)

    return _once(name, [f"{package}@{version}", *(f"{k}={v}" for k, v in overrides.items())], build)


def debian_program(name: str, package: str, program: str) -> Path:
    """A program of a Debian package: the machine's own if installed, else unpacked into the peer's folder only."""
    if found := shutil.which(program):
        return Path(found)

    def build(home: Path) -> None:
        try:
            run(["apt-get", "download", package], cwd=home)
        except CannotInstall:  # the package lists may be missing or old
            run(["apt-get", "update", "-qq"], cwd=home)
            run(["apt-get", "download", package], cwd=home)
        run(["dpkg-deb", "-x", str(next(home.glob(f"{package}_*.deb"))), "root"], cwd=home)

    return _once(name, [f"apt:{package}"], build) / "root" / "usr" / "sbin" / program
