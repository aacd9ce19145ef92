#!/usr/bin/env bash
# Make .venv ready: `scripts/setup.sh run` for using hedgerow, `scripts/setup.sh dev` for tests, checks and benchmarks.
#
# Finds a Python >= 3.11 (or takes the one named by PYTHON), makes a virtual environment, installs exactly what the lock
# file says (by hash) and hedgerow itself in editable mode. A stamp inside .venv, keyed on the locks, pyproject.toml and
# this folder, makes the second call free. Two calls at once wait for each other.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/system.sh

kind=${1:?"usage: scripts/setup.sh run|dev"}
venv=.venv
stamp() { echo "$venv/.ready-$1-$({ cat "requirements/$1.txt" pyproject.toml scripts/setup.sh; pwd; } | cksum | tr ' ' -)"; }
works() { "$venv/bin/python" -c '' >/dev/null 2>&1; }
ready() { [[ -e $(stamp dev) || ($kind == run && -e $(stamp run)) ]] && works; }
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
can_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }
candidates() { if [[ -n ${PYTHON:-} ]]; then echo "$PYTHON"; else printf '%s\n' python3 python3.14 python3.13 python3.12 python3.11; fi; }

find_python() { # prints the first new enough Python; one that can make virtual environments goes before one that cannot
  local name fallback=""
  for name in $(candidates); do
    new_enough "$name" || continue
    can_venv "$name" && { echo "$name"; return; }
    fallback=${fallback:-$name}
  done
  echo "$fallback"
}

need_python() { # sets `python`, installing what is missing where this user may
  python=$(find_python)
  if [[ -z $python && -z ${PYTHON:-} ]]; then
    apt_install python3 python3-venv || true
    python=$(find_python)
  fi
  [[ -n $python ]] || die "hedgerow needs Python 3.11 or newer, and neither ${PYTHON:-python3 nor python3.11 .. python3.14} is one." \
    "Install one (Debian, Ubuntu: apt-get install python3 python3-venv) or name it: PYTHON=/path/to/python3 make ..."
  can_venv "$python" && return
  local package
  package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
  apt_install "$package" && can_venv "$python" ||
    die "$python cannot make virtual environments. Install what is missing: apt-get install $package"
}

make_venv() {
  need_python
  say "making $venv with $("$python" --version) ($python)"
  "$python" -m venv --clear "$venv"
}

install() {
  say "installing requirements/$kind.txt into $venv (once; takes about a minute)"
  local pip=("$venv/bin/python" -m pip --disable-pip-version-check -qq --no-input)
  "${pip[@]}" install --require-hashes --requirement "requirements/$kind.txt"
  "${pip[@]}" install --no-deps --no-build-isolation --editable .
  rm -f "$venv"/.ready-"$kind"-*
  touch "$(stamp "$kind")"
}

case $kind in run | dev) ;; *) die "usage: scripts/setup.sh run|dev" ;; esac
ready && exit 0
exec 9<pyproject.toml
command -v flock >/dev/null && flock 9
ready && exit 0
works && new_enough "$venv/bin/python" || make_venv
install
