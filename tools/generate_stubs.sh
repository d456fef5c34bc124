#!/usr/bin/env bash
# Generates seed_rl/wire/generated from protos/. Needs grpcio-tools (extra [dev]); PYTHON sets the interpreter,
# OUT the output directory (a test compares fresh stubs with the committed ones).
set -euo pipefail
cd "$(dirname "$0")/.."
out="${OUT:-seed_rl/wire/generated}"
mkdir -p "$out"
"${PYTHON:-python}" -m grpc_tools.protoc -I protos --python_out="$out" --pyi_out="$out" protos/inference.proto
