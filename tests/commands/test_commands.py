import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import seed_rl
from seed_rl import commands
from seed_rl.commands import COMMANDS
from seed_rl.commands.completion import candidates
from tests.selection import mostly_slow

ROOT = Path(commands.__file__).parents[2]


def run(*args, **variables):
    command = [sys.executable, "-m", "seed_rl", *args]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, **variables)


def test_every_module_is_a_command_and_has_a_line():
    modules = {path.stem for path in Path(commands.__file__).parent.glob("*.py")} - {"__init__"}
    assert {*modules, "submit"} == set(COMMANDS)
    lines = run().stdout.splitlines()
    for name in COMMANDS:
        assert sum(line.startswith(f"  seed_rl {name} ") for line in lines) == 1
    assert all(len(line) <= 100 for line in lines)


# Variables under which Python has another standard output, or other code.
SETTINGS = {
    "ASCII": {"PYTHONIOENCODING": "ascii"},
    "no locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "no docstrings and no asserts": {"PYTHONOPTIMIZE": "2"},
}


@pytest.mark.parametrize(
    ("name", "setting"),
    mostly_slow(
        [(n, s) for n in COMMANDS for s in SETTINGS],
        [*((n, "ASCII") for n in COMMANDS), ("actor", list(SETTINGS)[-1])],
    ),
)
def test_help_with_examples_is_printed_whatever_the_terminal_and_the_interpreter(name, setting):
    done = run(name, "--help", env={**os.environ, **SETTINGS[setting]})
    assert (done.returncode, done.stderr) == (0, "")
    assert "  --" in done.stdout or name == "completion"
    if setting != "no docstrings and no asserts":
        head = done.stdout.split("\n\n  --")[0].splitlines()[:14]
        assert any(line.startswith("Examples:") for line in head)
        assert sum(line.strip().startswith("seed_rl ") or "./run" in line for line in head) >= 2


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("train", ["environment", "agent", "game"]),
        ("evaluate", ["logdir", "checkpoint", "episodes", "greedy", "against"]),
        ("tournament", ["episodes", "greedy", "seed", "output"]),
        ("plot", ["style", "metric", "label", "output"]),
        ("report", ["format", "label"]),
        ("sweep", ["space", "trials", "seeds", "parallel"]),
        ("export", ["logdir", "checkpoint", "format", "output"]),
        ("doctor", ["logdir"]),
    ],
)
def test_help_has_the_most_useful_flags_first_in_groups_whose_texts_are_whole(name, first):
    shown = run(name, "--help").stdout.splitlines()
    flags = [re.split(r"[\s=]", line)[2].removeprefix("--") for line in shown if line.startswith("  --")]
    assert flags[: len(first)] == first
    assert shown[-1] == "--helpfull prints all flags."
    assert not any("…" in line for line in shown) and max(map(len, shown)) <= 110


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["trian"], "did you mean `seed_rl train`"),
        (["local_main"], "the commands are train,"),
        (["catch", "vtrace", "--seed=2"], "write `seed_rl train catch vtrace --seed=2`."),
        (["train", "gym", "ppo", "CartPole-v1"], "a game is written --game=CartPole-v1."),
        (["train", "catch", "ppo", "four"], "--num_actors=four is not valid; it must be a whole number."),
        (["train", "catch", "vtrace", "1", "4", "5"], "'5' is one too many"),
        (["evaluate"], "No run is given"),
        (["evaluate", "a", "--logdir=b"], "'a' and --logdir say the same thing"),
        (["tournament"], "at least two runs"),
        (["export"], "No run is given"),
        (["export", "a"], "a is not a directory"),
        (["export", "a", "--format=onnx", "--output=seed_rl"], "--output=seed_rl is a directory"),
        (["export", "a", "--format=onnx", "--output=README.md"], "README.md already exists"),
        (["export", "a", "--output=seed_rl"], "seed_rl already exists"),
        (["export", "a", "--output=seed_rl", "--overwrite"], "seed_rl is no SavedModel"),
        (["completion", "fish"], "bash or zsh"),
    ],
)
def test_wrong_words_get_one_sentence(args, text):
    done = run(*args)
    assert done.returncode == 2
    assert text in done.stderr
    assert done.stderr.count("\n") == 1


def test_help_before_a_command_is_that_of_the_command_and_the_version_is_a_line():
    assert run("help", "doctor").stdout == run("doctor", "--help").stdout
    assert run("--version").stdout == f"seed_rl {seed_rl.__version__}\n"


@pytest.mark.parametrize(
    ("words", "start", "expected"),
    [
        ([], "e", ["evaluate", "export"]),
        ([], "to", ["tournament"]),
        (["tournament"], "--epi", ["--episodes"]),
        (["tournament"], "runs/", []),
        (["train"], "ca", ["catch"]),
        (["train", "catch"], "rain", ["rainbow"]),
        (["train", "catch", "vtrace"], "", []),
        (["train", "catch", "vtrace"], "--unroll", ["--unroll_length"]),
        (["evaluate"], "--epi", ["--episodes"]),
        (["evaluate"], "runs/", []),
        (["train", "nothing"], "--unroll", []),
        (["completion"], "", ["bash", "zsh"]),
        (["nothing"], "", []),
    ],
)
def test_completion(words, start, expected):
    assert candidates(words, start) == expected


@pytest.mark.parametrize(
    ("line", "expected"), [("seed_rl tra", "train\n"), ("seed_rl train catch sa", "sac\n")]
)
def test_a_shell_asks_for_what_may_stand_at_the_cursor(line, expected):
    assert run("completion", env={"COMP_LINE": f"{line}xx", "COMP_POINT": str(len(line))}).stdout == expected
