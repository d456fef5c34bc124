"""The worked examples of docs/extending.md: they are what a user would install, and they learn."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.slow


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def package(tmp_path):
    """A folder with the package of the page and its entry points, as pip would leave it."""
    corridor, config, algorithm = blocks("python")
    folder = tmp_path / "their_package"
    (folder / "naive").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "naive" / "__init__.py").touch()
    (folder / "corridor.py").write_text(corridor)
    (folder / "naive" / "config.py").write_text(config)
    (folder / "naive" / "algorithm.py").write_text(algorithm)
    info = tmp_path / "their_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their_package\nVersion: 1.0\n")
    groups = [re.sub(r'^\[project\.entry-points\."(.*)"\]', r"[\1]", block) for block in blocks("toml")]
    (info / "entry_points.txt").write_text("\n".join(groups).replace('"', ""))
    return tmp_path


def run(package, *args):
    return subprocess.run(
        [sys.executable, "-m", "seed_rl", *args],
        cwd=package,
        env={**os.environ, "PYTHONPATH": f"{package}:{ROOT}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )


def test_the_examples_learn_with_the_command_of_the_page(package):
    (command,) = [block for block in blocks("bash") if "train" in block]
    args = command.replace("\\\n", " ").split()[2:]
    done = run(package, *args, f"--logdir={package}/run", "--log_period_secs=0.5")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in (package / "run" / "metrics.jsonl").read_text().splitlines()]
    # At random, about two walks in five arrive.
    assert lines[-1]["mean_return"] > 0.9
    assert "entropy" in lines[-1]


def test_their_flags_are_in_the_help_and_their_limits_hold(package):
    shown = run(package, "learner", "--environment=corridor", "--agent=naive", "--help").stdout
    for flag in ("--length", "--unroll_length", "--lstm_size", "--queue_capacity", "--entropy_cost"):
        assert flag in shown
    refused = run(package, "train", "corridor", "naive", "--length=1")
    assert refused.returncode == 2
    assert "--length=1 is too low; it must be at least 2" in refused.stderr


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def losses(", "def loses(", "--agent=naive is incomplete: "),
        ("return NaivePolicy(", "return (", "Naive.policy must be a seed_rl.algorithms.policy.Policy"),
        ("config.queue", "'a queue'", "Naive.experience must be a"),
        ("valid, axis=0)", "valid)", "Naive.losses must return 'loss' of shape [B] = [8]"),
    ],
    ids=["no losses", "no policy", "unknown experience", "wrong shape"],
)
def test_an_algorithm_that_is_wrong_gets_one_sentence(package, old, new, words):
    path = package / "their_package" / "naive" / "algorithm.py"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    args = ("--num_actors=1", "--env_batch_size=8", "--lstm_size=0", "--batch_size=8", "--logdir=run")
    done = run(package, "train", "corridor", "naive", *args)
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr
