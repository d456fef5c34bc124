#!/usr/bin/env bash
# Trains on this machine; needs only Python 3.11 to 3.13:
#
#   ./run_local.sh [environment] [agent] [actors] [environments per actor] [--flags]
#
# Without arguments: Pong with V-trace, using the preset for small machines. --help lists the flags.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tools/setup_venv.sh"
extras=learner,atari,plot,web
[[ "$*" != *minatar* ]] || extras+=,minatar # It brings pandas and seaborn.
[[ "$*" != *football* && "$*" != *envpool* ]] || extras+=,envpool # 740 MB on disk.
setup_venv "$extras"
exec "$VENV_PYTHON" -m seed_rl train "$@"
