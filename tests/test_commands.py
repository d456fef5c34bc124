import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import seed_rl
from seed_rl.__main__ import COMMANDS

PACKAGE = Path(seed_rl.__file__).parent
ROOT = PACKAGE.parent


def run(*args):
    done = subprocess.run(
        [sys.executable, "-m", *args], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_list_names_every_main_in_a_line():
    mains = {path.stem for path in PACKAGE.glob("*.py") if "run_main(main)" in path.read_text()}
    assert mains == set(COMMANDS)
    lines = run("seed_rl").splitlines()
    for name in COMMANDS:
        assert sum(f"python -m seed_rl.{name} " in line for line in lines) == 1
    assert all(len(line) <= 100 for line in lines)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_starts_with_examples(name):
    assert importlib.util.find_spec(f"seed_rl.{name}") is not None
    head = run(f"seed_rl.{name}", "--help").split("\n\n  --")[0].splitlines()[:14]
    starts = [
        i for i, line in enumerate(head) if line.strip().startswith("python -m seed_rl.") or "./run" in line
    ]
    assert any(line.startswith("Examples:") for line in head)
    assert len(starts) >= 2
