"""The examples of docs/own_*.md, pasted word for word; an environment and an algorithm are installed."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT, blocks

pytestmark = pytest.mark.slow


def commands(page):
    """The commands of a page, but for those of pip; `seed_rl` stands for the module."""
    lines = "".join(blocks(page, "bash")).replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("seed_rl ")]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A directory with both packages, installed by pip."""
    path = tmp_path_factory.mktemp("site")
    module, suite = blocks("own_environment.md", "python")
    config, algorithm = blocks("own_algorithm.md", "python")
    projects = {
        "own_environment.md": {"my_envs.py": module, "corridor_suite.py": suite},
        "own_algorithm.md": {"__init__.py": "", "config.py": config, "algorithm.py": algorithm},
    }
    for page, files in projects.items():
        project = tmp_path_factory.mktemp("project")
        (project / "pyproject.toml").write_text(*blocks(page, "toml"))
        folder = project / "naive" if "__init__.py" in files else project
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        options = ("--no-deps", "--no-build-isolation", f"--target={path}")
        pip = (sys.executable, "-m", "pip", "install", *options, ".")
        subprocess.run(pip, cwd=project, check=True, capture_output=True, timeout=300)
    return path


@pytest.fixture
def run(site, tmp_path):
    """Runs a command in a directory of its own."""

    def start(*args, also="", cwd=tmp_path):
        paths = f"{also}:{site}:{ROOT}"
        return subprocess.run(
            [sys.executable, "-m", "seed_rl", *args],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=500,
        )

    return start


def last_figures(logdir):
    return json.loads((logdir / "metrics.jsonl").read_text().splitlines()[-1])


TRAINED = [
    (page, args)
    for page in ("own_environment.md", "own_algorithm.md", "own_network.md")
    for args in commands(page)
    if args[0] == "train"
]


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """The directory of somebody who types all commands of a page, by page."""
    directories = {page: tmp_path_factory.mktemp("reader") for page, _ in TRAINED}
    (network,) = blocks("own_network.md", "python")
    (directories["own_network.md"] / "my_networks.py").write_text(network)
    return directories


@pytest.mark.parametrize(("page", "args"), TRAINED)
def test_the_commands_of_a_page_learn_in_one_directory(run, reader, page, args):
    done = run(*args, "--log_period_secs=0.5", cwd=reader[page])
    assert done.returncode == 0, done.stdout + done.stderr
    logdir = re.search(r"run directory (\S+)\.\n", done.stderr)[1]
    # At random: about 0 in Catch, -0.2 in the corridor.
    assert last_figures(reader[page] / logdir)["mean_return"] > 0.7


@pytest.mark.parametrize(
    ("page", "others"),
    [
        ("own_environment.md", []),
        ("own_network.md", [["export", "runs/catch_board", "--output=exported", "--trust_code"]]),
    ],
)
def test_the_run_of_the_first_command_is_evaluated_and_exported(run, reader, page, others):
    first, where = next(args for args in commands(page) if args[0] == "train"), reader[page]
    evaluate = [args for args in commands(page) if args[0] == "evaluate"]
    for args in ([] if (where / "runs").exists() else [first]) + evaluate + others:
        done = run(*args, cwd=where)
        assert done.returncode == 0, done.stdout + done.stderr


def test_their_flags_are_in_the_help_and_their_limits_hold(run):
    shown = run("learner", "corridor", "naive", "--helpfull").stdout
    for flag in ("--length", "--unroll_length", "--lstm_size", "--queue_capacity", "--entropy_cost"):
        assert flag in shown
    refused = run("train", "corridor", "naive", "--length=1")
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
def test_an_algorithm_that_is_wrong_gets_one_sentence(run, site, tmp_path, old, new, words):
    changed = tmp_path / "changed" / "naive"
    changed.mkdir(parents=True)
    for path in (site / "naive").glob("*.py"):
        (changed / path.name).write_text(path.read_text())
    text = (changed / "algorithm.py").read_text()
    assert old in text
    (changed / "algorithm.py").write_text(text.replace(old, new))
    args = ("--num_actors=1", "--env_batch_size=8", "--lstm_size=0", "--batch_size=8", "--logdir=run")
    done = run("train", "corridor", "naive", *args, also=changed.parent)
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr
