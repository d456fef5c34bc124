#!/usr/bin/env bash
# Sets everything up and runs lint, format and type checks and the tests. Arguments go to pytest; -m "" adds the slow
# tests, which continuous integration also runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. tools/setup_venv.sh
setup_venv "$TEST_EXTRAS"
"$VENV_PYTHON" -m ruff check .
"$VENV_PYTHON" -m ruff format --check .
# The rooms without TensorFlow, because mypy can check their types.
"$VENV_PYTHON" -m mypy seed_rl/types.py seed_rl/options.py seed_rl/files.py seed_rl/loading.py seed_rl/messages.py \
    seed_rl/signals.py seed_rl/waits.py seed_rl/wire seed_rl/environments seed_rl/actor seed_rl/serving seed_rl/hosts seed_rl/runs seed_rl/plotting seed_rl/diagnosis \
    seed_rl/flags seed_rl/launch seed_rl/sweeps seed_rl/experience/intake.py seed_rl/experience/unroll_config.py \
    seed_rl/algorithms/registry.py seed_rl/inference/turns.py seed_rl/inference/figures.py seed_rl/inference/refusals.py seed_rl/learner/health.py \
    seed_rl/learner/usage.py seed_rl/reporting/cpu.py seed_rl/actor_main.py seed_rl/gateway_main.py \
    seed_rl/local_main.py seed_rl/vertex_main.py seed_rl/plot.py seed_rl/doctor.py seed_rl/sweep.py gcp
# Three at a time, on as few as two cores: many tests spend their time waiting for processes.
exec "$VENV_PYTHON" -m pytest --numprocesses=3 "$@"
