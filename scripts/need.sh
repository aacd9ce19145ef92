#!/usr/bin/env bash
# See that system programs are there: `scripts/need.sh curl gcc`. Installs the missing ones with apt where this user
# may; otherwise says loudly what will not run, and exits 0: the tests that need them skip themselves and say so too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/system.sh

there() { command -v "$1" || compgen -G "/usr/lib/$1/*/bin/initdb"; } # Debian keeps PostgreSQL's off the path

for program in "$@"; do
  there "$program" >/dev/null && continue
  apt_install "$program" && continue
  printf '\n!!! %s is not installed and cannot be installed from here: what needs it WILL NOT RUN.\n' "$program" >&2
  printf '!!! To run it too: sudo apt-get install %s\n\n' "$program" >&2
done
