#!/usr/bin/env bash
# Generates seed_rl/wire/generated from protos/. Needs grpcio-tools (extra [dev]); PYTHON sets the interpreter,
# OUT the output directory (a test compares fresh stubs with the committed ones).
set -euo pipefail
cd "$(dirname "$0")/.."
out="${OUT:-seed_rl/wire/generated}"
mkdir -p "$out"
"${PYTHON:-python}" -m grpc_tools.protoc -I protos --python_out="$out" --pyi_out="$out" --grpc_python_out="$out" protos/inference.proto
# The generated service module imports its sibling by top-level name; make that a package import.
sed -i.bak 's/^import inference_pb2/from seed_rl.wire.generated import inference_pb2/' "$out/inference_pb2_grpc.py"
rm -f "$out/inference_pb2_grpc.py.bak"
