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
    *" -") cat >>"{log}" ;;
    "{fails}"*) exit 1 ;;
esac
"""


@pytest.fixture
def run(tmp_path):
    """Runs the script with only these commands: (exit code, last line of its errors, the calls)."""

    def run_script(*args, commands=("docker", "gcloud"), fails="nothing", **env):
        for old in tmp_path.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        log = tmp_path / "calls"
        log.touch()
        binaries = tmp_path / "bin"
        binaries.mkdir()
        for name in ("bash", "dirname", "basename", "cat"):
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
    for target in ("learner", "actor"):
        build = (
            f"docker build -f docker/Dockerfile --platform linux/amd64 --target {target} "
            f"--build-arg ACCELERATOR=gpu --build-arg SUITES=atari -t seed_rl-{target}:v1 ."
        )
        again = f"docker build --platform linux/amd64 -t {repository}/{target}:v1 -"
        start = calls.index(build)
        assert calls[start + 1 : start + 5] == [
            again,
            f"FROM seed_rl-{target}:v1",
            "USER root",
            f"docker push {repository}/{target}:v1",
        ]


def test_without_a_push_gcloud_is_not_needed(run):
    code, _, calls = run("my-project", commands=("docker",), PUSH="0", ACCELERATOR="cpu")
    assert code == 0 and not any("push" in call for call in calls)
    assert sum("ACCELERATOR=cpu" in call for call in calls) == 2


@pytest.mark.parametrize(
    ("args", "settings", "sentence"),
    [
        ((), {}, "No project is named"),
        (("p",), {"commands": ("gcloud",)}, "docker is not installed"),
        (("p",), {"commands": ("docker",)}, "gcloud is not installed"),
        (("p",), {"fails": "info"}, "No Docker engine answers"),
        (("p",), {"fails": "artifacts"}, "gcloud artifacts repositories create seed-rl"),
    ],
)
def test_what_is_missing_is_one_sentence_and_nothing_is_built(run, args, settings, sentence):
    code, error, calls = run(*args, **settings)
    assert code == 2 and error.startswith("seed_rl: error: ") and sentence in error
    assert not any("build" in call for call in calls)
