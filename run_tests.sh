#!/usr/bin/env bash
# Sets everything up and runs lint, format and type checks and the tests. Arguments go to pytest; -m "not
# long" adds the slow tests, which continuous integration also runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. tools/setup_venv.sh
setup_venv "$TEST_EXTRAS"
"$VENV_PYTHON" -m ruff check .
"$VENV_PYTHON" -m ruff format --check .
"$VENV_PYTHON" -m mypy seed_rl gcp benchmarks # TensorFlow itself has no types.
# Three at a time, on as few as two cores: many tests spend their time waiting for processes.
exec "$VENV_PYTHON" -m pytest --numprocesses=3 "$@"
