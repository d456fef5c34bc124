"""The script that builds and pushes images, with stand-ins for docker and gcloud."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "gcp" / "build_images.sh"
STAND_IN = """#!/usr/bin/env bash
echo "$(basename "$0") $*" >>"{log}"
case "$*" in
    *" -f - "*) cat >"{log}.dockerfile.$(grep -c "buildx build" "{log}")" ;;
    "{fails}"*) exit 1 ;;
esac
"""


@pytest.fixture
def run(tmp_path):
    """Runs the script with only these commands: (exit code, last line of its errors, the calls)."""

    def run_script(*args, commands=("docker", "gcloud"), fails="nothing", **env):
        log = tmp_path / "calls"
        log.touch()
        binaries = tmp_path / "bin"
        binaries.mkdir()
        for name in ("bash", "dirname", "basename", "cat", "grep"):
            (binaries / name).symlink_to(shutil.which(name))
        for name in commands:
            (binaries / name).write_text(STAND_IN.format(log=log, fails=fails))
            (binaries / name).chmod(0o755)
        env = {**os.environ, "PATH": str(binaries), **env}
        done = subprocess.run([SCRIPT, *args], env=env, cwd="/", timeout=60, capture_output=True, text=True)
        return done.returncode, (done.stderr.splitlines() or [""])[-1], log.read_text().splitlines()

    return run_script


def test_both_images_are_built_from_their_targets_and_pushed(run):
    code, _, calls = run("my-project", "europe-west4", "v1", BUILD_ARGS="--build-arg SUITES=atari")
    assert code == 0
    repository = "europe-west4-docker.pkg.dev/my-project/seed-rl"
    builds = [call for call in calls if "buildx build" in call]
    assert builds == [
        "docker buildx build -f - --platform linux/amd64 --target vertex --provenance=false "
        f"--build-arg ACCELERATOR=gpu --build-arg SUITES=atari -t {repository}/{target}:v1 --push ."
        for target in ("learner", "actor")
    ]


def test_without_a_push_gcloud_is_not_needed_and_the_engine_gets_the_images(run):
    code, _, calls = run("my-project", commands=("docker",), PUSH="0", ACCELERATOR="cpu")
    assert code == 0 and not any("push" in call for call in calls)
    assert sum("--load" in call for call in calls) == 2
    assert sum("ACCELERATOR=cpu" in call for call in calls) == 2


@pytest.mark.parametrize(
    ("args", "settings", "sentence"),
    [
        ((), {}, "No project is named"),
        (("p",), {"commands": ("docker",)}, "gcloud is not installed"),
        (("p",), {"fails": "artifacts"}, "gcloud artifacts repositories create seed-rl"),
    ],
)
def test_what_is_missing_is_one_sentence_and_nothing_is_built(run, args, settings, sentence):
    code, error, calls = run(*args, **settings)
    assert code == 2 and error.startswith("seed_rl: error: ") and sentence in error
    assert not any("buildx build" in call for call in calls)


def test_without_docker_the_script_fails(run):
    code, error, _ = run("p", commands=("gcloud",))
    assert code != 0 and "docker" in error
