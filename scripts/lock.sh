#!/usr/bin/env bash
# Regenerate the lock files from pyproject.toml: one for every Python >= 3.11 and platform, with hashes, without index
# addresses. Options go to uv, e.g. --upgrade. Needs uv, which is fetched into .venv when there is none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/system.sh

uv=$(command -v uv || echo .venv/bin/uv)
[[ -x $uv ]] || .venv/bin/python -m pip --quiet install 'uv>=0.9'

compile() { # compile OUTPUT OPTION...
  local output=$1
  shift
  "$uv" pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
    --no-emit-find-links --custom-compile-command "make lock" --output-file "$output" pyproject.toml "$@"
  if grep -nE '://|^ *--(index|extra|find|trusted)' "$output"; then die "$output names an index"; fi
}

extras() { # of pyproject.toml, but those too heavy for every `make setup-dev`: their tests skip where they are not installed
  .venv/bin/python - <<'END'
import tomllib
extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
print(*(f"--extra {extra}" for extra in extras if extra not in ("litellm",)))
END
}

# shellcheck disable=SC2046  # words are wanted
compile requirements/dev.txt $(extras) --group dev "$@"
compile requirements/run.txt --extra gateway --group build --constraint requirements/dev.txt "$@"
say "requirements/dev.txt and requirements/run.txt are up to date"
