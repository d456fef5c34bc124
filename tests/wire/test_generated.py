"""The committed stubs are those of protos/inference.proto."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from seed_rl.wire.generated import inference_pb2

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """A directory with freshly generated stubs."""
    pytest.importorskip("grpc_tools", reason="grpcio-tools (extra dev) generates the stubs")
    out = tmp_path_factory.mktemp("generated")
    env = {**os.environ, "OUT": str(out), "PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", str(ROOT / "tools/generate_stubs.sh")], env=env, timeout=120, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return out


def test_messages_match(generated):
    code = (generated / "inference_pb2.py").read_text()
    literal = re.search(r"AddSerializedFile\((b'.*?')\)\n", code, re.DOTALL)
    fresh = descriptor_pb2.FileDescriptorProto.FromString(eval(literal.group(1)))
    committed = descriptor_pb2.FileDescriptorProto.FromString(inference_pb2.DESCRIPTOR.serialized_pb)
    assert committed == fresh, "Run tools/generate_stubs.sh."


def test_stubs_need_no_newer_protobuf_than_tensorflow_allows():
    header = (ROOT / "seed_rl/wire/generated/inference_pb2.py").read_text()
    version = re.search(r"Protobuf Python Version: (\d+)\.(\d+)", header)
    assert tuple(map(int, version.groups())) <= (6, 31)
