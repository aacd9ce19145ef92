#!/usr/bin/env bash
# Real-model check: installs llama.cpp's server and small weights into .e2e-llm/ on first use, then runs the scenes.
# Options go to `python -m tests.e2e_llm`, e.g. --install-only.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec "${PYTHON:-.venv/bin/python}" -m tests.e2e_llm "$@"
