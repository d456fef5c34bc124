"""docker/Dockerfile and what is around it, as far as that can be tried without building images.

tools/prove_images.sh builds them and trains in them.
"""

import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.server import InferenceServer
from seed_rl.types import ArraySpec, EnvironmentSpec
from seed_rl.wire.protocol import EnvironmentDescription
from seed_rl.wire.security import Security

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()
DESCRIPTION = EnvironmentDescription(
    "catch", {}, EnvironmentSpec(ArraySpec((2,), "float32"), ArraySpec((), "int32", (0,), (9,)))
)
STAGES = re.split(r"^(?=FROM )", DOCKERFILE, flags=re.MULTILINE)


def requirements(*args):
    command = [sys.executable, "docker/requirements.py", *args]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def names(output):
    return {re.match(r"[\w-]+", line)[0] for line in output.splitlines()}


def is_sent(path):
    """Whether the builder gets to see the path: of the lines in .dockerignore that match, the last counts."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        above = [path, *map(str, Path(path).parents)]
        if line.startswith("**/"):
            above = [Path(part).name for part in above]
        if not line.startswith("#") and any(fnmatch.fnmatch(part, pattern) for part in above):
            sent = line.startswith("!")
    return sent


def test_the_linter_finds_nothing():
    linter = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([linter, ROOT / "docker/Dockerfile"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("program", ["learner", "actor"])
def test_an_image_starts_its_program_as_process_1_and_not_as_root(program):
    stage = next(stage for stage in STAGES if f"AS {program}\n" in stage)
    assert (
        f'ENTRYPOINT ["python", "-m", "seed_rl.{program}_main"]' in stage
    )  # No shell between the signal and it.
    assert stage.startswith("FROM runtime AS")
    assert "USER ${UID}" in next(stage for stage in STAGES if "AS runtime\n" in stage)
    assert "\nUSER" not in stage


def test_the_base_is_pinned_to_a_patch_release():
    assert re.search(r"^ARG BASE=python:3\.11\.\d+-slim-bookworm$", DOCKERFILE, re.MULTILINE)
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert set(bases) == {"${BASE}", "runtime", "actor-packages"}
    assert set(re.findall(r"^FROM runtime AS (\S+)", DOCKERFILE, re.MULTILINE)) == {
        "actor",
        "learner",
        "tensorboard",
    }


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".venv/bin/python",
        "runs/pong/run.json",
        "docker/.env",
        "docs/pong.png",
        "tests/conftest.py",
        "seed_rl/__pycache__/types.cpython-311.pyc",
        "seed_rl/actor/__pycache__/loop.cpython-311.pyc",
    ],
)
def test_what_no_image_needs_is_not_sent_to_the_builder(path):
    assert not is_sent(path)


def test_what_is_copied_is_sent_to_the_builder():
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    sources = [source for line in lines for source in line.split()]
    assert {"seed_rl", "configs", "setup.py"} <= set(sources)
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert [source for source in sources if not is_sent(source)] == []
    assert is_sent("seed_rl/actor/loop.py")
    assert is_sent("seed_rl/runs/record.py")  # Not the directory runs/.


def test_an_actor_has_no_tensorflow():
    found = names(requirements("--suites=catch,atari,football").stdout)
    assert {"grpcio", "ale-py"} <= found
    assert not {name for name in found if name.startswith(("tensor", "keras"))}


@pytest.mark.parametrize(
    ("accelerator", "lines"),
    [
        (
            "cpu",
            [
                "tensorflow-cpu>=2; platform_machine == 'x86_64'",
                "tensorflow>=2; platform_machine != 'x86_64'",
            ],
        ),
        ("gpu", ["tensorflow[and-cuda]>=2"]),
    ],
)
def test_the_accelerator_picks_the_learners_tensorflow(accelerator, lines):
    found = requirements("--suites=catch", f"--accelerator={accelerator}").stdout
    assert {"keras", "tensorboard", "grpcio"} <= names(found)
    found = [re.sub(r">=2[^;]*", ">=2", line) for line in found.splitlines() if line.startswith("tensorflow")]
    assert found == lines


def test_tensorboard_comes_alone():
    assert re.fullmatch(r"tensorboard>=\S+\n", requirements("--only=tensorboard").stdout)


def test_a_suite_that_does_not_exist_is_one_sentence():
    done = requirements("--suites=atari,atarri")
    assert done.returncode == 2 and done.stdout == ""
    assert "no extra 'atarri' for --suites=atari,atarri; take it out." in done.stderr


def check_health(*arguments):
    command = [sys.executable, ROOT / "docker/healthcheck.py", *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def test_a_learner_that_answers_is_healthy(tmp_path):
    address = f"unix:{tmp_path}/socket"
    server = InferenceServer(address, DESCRIPTION, 1, [Batcher(1, 1.0)], 1)
    try:
        done = check_health(address)
    finally:
        server.stop()
    assert (done.returncode, done.stderr) == (0, "")


def test_a_learner_with_tls_that_asks_for_a_token_is_healthy(tmp_path):
    authority = trustme.CA()
    issued = authority.issue_cert("seed-rl-learner")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    chain, key = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
    security = Security(certificate=chain, key=key, token="a-token-of-these-tests")
    server = InferenceServer("localhost:0", DESCRIPTION, 1, [Batcher(1, 1.0)], 1, security=security)
    try:
        address = f"localhost:{server.port}"
        done = check_health(address, tmp_path / "ca.pem", "seed-rl-learner")
        other = check_health(address, tmp_path / "ca.pem", "another-learner")
        without = check_health(address)
    finally:
        server.stop()
    assert (done.returncode, done.stderr) == (0, "")
    assert other.returncode == without.returncode == 1
    assert other.stderr == f"The learner at {address} does not answer: UNAVAILABLE.\n"


def test_a_learner_that_is_not_there_is_unhealthy(tmp_path):
    done = check_health(f"unix:{tmp_path}/none")
    assert done.returncode == 1
    assert done.stderr == f"The learner at unix:{tmp_path}/none does not answer: UNAVAILABLE.\n"
