"""The shell scripts, with a stand-in for Python that writes down how it is called."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Takes every `-c` check as passed, and makes a "virtual environment" that holds itself.
FAKE_PYTHON = """#!/usr/bin/env bash
echo "$*" >>"{log}"
case "$*" in
    "-m venv --clear --upgrade-deps "*) mkdir -p "$5/bin" && cp "$0" "$5/bin/python" ;;
    "-m pip "*) exit {pip} ;;
    --version) echo "Python 3.12.0" ;;
esac
"""


@pytest.fixture
def clone(tmp_path):
    """A directory with a space in its name that holds the scripts and pyproject.toml."""
    directory = tmp_path / "a clone"
    (directory / "tools").mkdir(parents=True)
    for name in ("run_local.sh", "run_tests.sh", "pyproject.toml", "tools/setup_venv.sh"):
        shutil.copy(ROOT / name, directory / name)
    return directory


def run(clone, script, *args, pip=0, python=None):
    """(exit code, standard error, the calls of Python since the last run)."""
    log, fake = clone.parent / "calls", clone.parent / "fake python"
    log.write_text("")
    fake.write_text(FAKE_PYTHON.format(log=log, pip=pip))
    fake.chmod(0o755)
    env = {**os.environ, "PYTHON": python or str(fake)}
    command = [str(clone / script), *args]
    done = subprocess.run(command, env=env, cwd="/", timeout=60, capture_output=True, text=True)
    return done.returncode, done.stderr, log.read_text().splitlines()


def installs(calls):
    return [call for call in calls if call.startswith("-m pip install")]


def test_the_first_run_installs_and_the_next_one_nothing_until_pyproject_toml_changes(clone):
    code, _, calls = run(clone, "run_local.sh", "catch", "vtrace", "--logdir=a b")
    assert code == 0
    assert len(installs(calls)) == 1 and installs(calls)[0].endswith(f"-e {clone}[learner,atari,plot,web]")
    assert calls[-1] == "-m seed_rl train catch vtrace --logdir=a b"
    assert installs(run(clone, "run_local.sh")[2]) == []
    with open(clone / "pyproject.toml", "a") as file:
        file.write("# changed\n")
    calls = run(clone, "run_local.sh", "minatar", "rainbow")[2]
    assert len(installs(calls)) == 1 and installs(calls)[0].endswith("[learner,atari,plot,web,minatar]")


def test_a_failed_installation_is_said_and_tried_again(clone):
    code, error, calls = run(clone, "run_local.sh", pip=1)
    assert code == 2 and error.splitlines()[-1].startswith("seed_rl: error: The installation failed;")
    assert not any("train" in call for call in calls)
    shutil.rmtree(clone / ".venv")  # It holds the Python whose pip fails.
    assert len(installs(run(clone, "run_local.sh")[2])) == 1


def test_no_suitable_python_is_said(clone):
    code, error, _ = run(clone, "run_local.sh", python="/no/python")
    assert code == 2
    assert error.startswith("seed_rl: error: No Python 3.11 to 3.13 was found as /no/python; install one,")


def test_run_tests_installs_the_tools_and_passes_arguments_to_pytest(clone):
    code, _, calls = run(clone, "run_tests.sh", "tests/wire", "-q")
    assert code == 0
    assert installs(calls)[0].endswith("[dev]")
    tools = [call.split()[1] for call in calls if call.startswith("-m ")]
    assert tools[-5:] == ["pip", "ruff", "ruff", "mypy", "pytest"]
    assert calls[-1] == "-m pytest --numprocesses=3 tests/wire -q"
