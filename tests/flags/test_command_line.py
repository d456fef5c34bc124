import dataclasses
import os
import subprocess
import sys
from typing import ClassVar

import pytest

from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError
from seed_rl.flags.resolve import resolve
from seed_rl.options import Options, option


@dataclasses.dataclass(frozen=True)
class MainConfig(Options):
    """Settings of the main."""

    batch_size: int = option(32, "Unrolls in a batch.", at_least=1)
    num_envs: int = option(4, "Environments.")
    loud: bool = option(False, "Whether it makes noise.")
    mode: str = option("slow", "How.", choices=("slow", "fast"))


@dataclasses.dataclass(frozen=True)
class OtherMainConfig(Options):
    """Settings of another main."""

    task: int = option(0, "Number.")
    quiet: bool = option(False, "Whether it makes no noise.")


BOTH = ("--environment=catch", "--agent=vtrace")


def parsed(*args, **settings):
    return resolve(["main", *args], "What it does.", (MainConfig,), **settings)


def refusal(*args, **settings):
    with pytest.raises(UsageError) as error:
        parsed(*args, **settings)
    return str(error.value)


def test_each_configuration_gets_its_flags():
    line = parsed(
        *BOTH, "--batch_size", "8", "--rows=2", "--kl_cost=0.25", "--num_action_repeats=4", "--mode=fast"
    )
    assert (line.environment, line.agent) == ("catch", "vtrace")
    assert line.read(MainConfig) == MainConfig(batch_size=8, mode="fast")
    assert line.environment_config().rows == 2
    assert line.environment_config().num_action_repeats == 4
    assert line.agent_config().kl_cost == 0.25
    assert line.read(MainConfig, num_envs=7).num_envs == 7


RECALL = ("--environment=recall", "--agent=vtrace")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ((*BOTH, "--batch_size=many"), "--batch_size=many is not valid; it must be a whole number."),
        ((*BOTH, "--kl_cost=much"), "--kl_cost=much is not valid; it must be a number."),
        ((*BOTH, "--loud=perhaps"), "--loud=perhaps is not valid; it must be true or false."),
        ((*BOTH, "--mode=medium"), "--mode=medium is not valid; choose one of: slow, fast."),
        ((*BOTH, "--noloud=1"), "--noloud=1 does not take an argument; flags are written --name=value."),
        ((*BOTH, "--batch_size"), "Missing value for flag --batch_size; flags are written --name=value."),
        ((*BOTH, "stray"), "The argument 'stray' is not a flag; flags are written --name=value."),
        ((*BOTH, "--environment=xyzzy"), "--environment=xyzzy is not valid; choose one of: atari, catch, "),
        ((*BOTH, "--agent=shy"), "--agent=shy is not valid; choose one of: a2c, "),
        ((*BOTH, "--batch_size=1", "--rows=1"), "--rows=1 is too low; it must be at least 2."),
        ((*BOTH, "--batchsize=1"), "for environment catch and agent vtrace; did you mean --batch_size?"),
        ((*RECALL, "--columns=1"), "for environment recall and agent vtrace; --help lists the valid ones."),
        (("--agent=vtrace",), "No environment is chosen; add --environment=NAME (atari, catch, "),
        (("--environment=catch",), "No agent is chosen; add --agent=NAME (a2c, "),
    ],
)
def test_bad_input_is_one_sentence(args, sentence):
    found = refusal(*args)
    assert sentence in found and "\n" not in found


def test_an_actor_may_leave_the_environment_to_its_learner():
    line = parsed("--batch_size=2", with_agent=False)
    assert (line.environment, line.agent, line.chosen_environment()) == ("", None, {})
    line = parsed("--environment=catch", "--rows=3", with_agent=False)
    assert line.chosen_environment() == {"environment": "catch", "rows": 3}
    assert refusal(*BOTH, with_agent=False).startswith("Unknown flag --agent for environment catch;")


def test_a_flagfile_is_shared_with_other_mains(tmp_path):
    path = tmp_path / "shared.flags"
    path.write_text("--environment=catch\n--agent=vtrace\n--kl_cost=1\n--task=3\n--noquiet\n--batch_size=2")
    line = parsed(f"--flagfile={path}", elsewhere=(OtherMainConfig,))
    assert line.read(MainConfig).batch_size == 2
    assert "--task" in refusal(f"--flagfile={path}", "--task=1", elsewhere=(OtherMainConfig,))
    path.write_text("--environment=catch\n--agent=vtrace\n--tusk=3")
    assert "--tusk" in refusal(f"--flagfile={path}", elsewhere=(OtherMainConfig,))


def test_flags_of_others_are_let_through_in_their_order_with_flagfiles_as_they_are():
    others = ["--flagfile=none.flags", "--rows=2", "--nofast", "--flagfile=more.flags"]
    args = ["main", *others[:2], "--batch_size=9", "--loud", *others[2:]]
    config, rest = parse_options(args, "", MainConfig, pass_through=True)
    assert (config.batch_size, config.loud, rest) == (9, True, others)
    with pytest.raises(UsageError, match="one too many"):
        parse_options([*args, "word"], "", MainConfig, pass_through=True)


@dataclasses.dataclass(frozen=True)
class TalkativeConfig(Options):
    """Settings with a long help."""

    HELP: ClassVar[str] = "A rate that needs many words, and has them. " * 8
    learning_rate: float = option(0.1, HELP)


def help_for(capsys, *args):
    with pytest.raises(SystemExit) as end:
        parsed(*args)
    assert end.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("argument", ["--help", "-h"])
def test_help_prints_the_most_useful_flags_with_their_values(argument, capsys, tmp_path):
    (tmp_path / "a.flags").write_text("--environment=gym\n--agent=vtrace\n--batch_size=5\n--game=Acrobot-v1")
    text = help_for(capsys, argument, f"--flagfile={tmp_path}/a.flags", "--batch_size=6", "--nonsense=1")
    assert text.startswith("What it does.")
    lines = [line.split()[0] for line in text.splitlines() if line.startswith("  --")]
    assert lines[:3] == ["--environment=gym", "--agent=vtrace", "--game=Acrobot-v1"]
    assert lines[3:5] == ["--num_envs=4", "--batch_size=6"]
    assert "--helpfull" in text
    groups = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")][1:]
    assert groups == ["Environment and agent:", "Actors:", "Learning:", "Network:"]


@pytest.mark.parametrize("columns", [70, 80, 110])
def test_help_wraps_its_texts_and_cuts_none(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit):
        parse_options(["main", "--help"], "About it.", TalkativeConfig)
    text = capsys.readouterr().out
    assert " ".join(TalkativeConfig.HELP.split()) in " ".join(text.split())
    assert max(map(len, text.partition("Learning:")[2].splitlines())) <= columns


def test_helpfull_prints_all_flags_of_what_was_chosen(capsys):
    text = help_for(capsys, "--helpfull", "--environment=catch", "--rows=7")
    assert text.startswith("What it does.") and "--kl_cost" not in text
    size = "--batch_size: Unrolls in a batch.\n    (default: '32')"
    for part in ("\nSettings of the main:\n", size, "(default: '7')", "<slow|fast>: How."):
        assert part in text
    assert text.endswith("--agent=NAME, help also prints their flags.\n")


@pytest.mark.parametrize("name", ["plot", "actor"])
def test_help_into_a_closed_pipe_ends_quietly(name):
    """As `--help | head` does."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "seed_rl", name, "--help"]
    with open(writer, "w") as closed:
        ended = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
