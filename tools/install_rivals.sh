#!/usr/bin/env bash
# Installs CleanRL and Sample Factory for `python -m benchmarks rivals`, each in a virtual environment of its own:
#
#   tools/install_rivals.sh [directory; default: .rivals]
#
# PyTorch is the build for CPUs. CleanRL 1.2.0 asks for a Python before 3.11 only because of packages that its Atari
# script does not import.
set -euo pipefail

DIRECTORY=${1:-.rivals}
PYTHON=${PYTHON:-python3}
TORCH=2.13.0+cpu

make() {
    [[ -x $DIRECTORY/$1/bin/python ]] || "$PYTHON" -m venv "$DIRECTORY/$1"
    "$DIRECTORY/$1/bin/pip" install -q "torch==$TORCH" 'setuptools<80' "${@:2}"
}

make cleanrl envpool==1.2.5 gymnasium tensorboard
"$DIRECTORY/cleanrl/bin/pip" install -q --no-deps --ignore-requires-python cleanrl==1.2.0
make sample_factory sample-factory==2.1.1 gymnasium==0.29.1 ale-py==0.12.1
echo "tools/install_rivals.sh: CleanRL and Sample Factory are in $DIRECTORY" >&2
