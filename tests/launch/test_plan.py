import json
import os
import re
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from seed_rl.flags.errors import UsageError
from seed_rl.flags.resolve import Launching
from seed_rl.flags.settings import Settings
from seed_rl.launch import plan

ADDRESS = "unix:/tmp/test.sock"


@pytest.fixture
def configs(tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "small/atari_vtrace.flags").write_text(
        "--environment=atari\n--agent=vtrace\n--game=Pong\n--num_actors=3\n--env_batch_size=5\n--batch_size=8"
    )
    (tmp_path / "small/catch_vtrace.flags").write_text("--environment=catch\n--agent=vtrace\n--batch_size=4")
    return tmp_path


def resolved(configs, *args, tell=lambda note: None):
    return plan.resolve_run(["train", *args], launching=Launching(tell, configs=configs))


def planned(configs, *args, address=ADDRESS):
    return plan.make_plan(resolved(configs, *args), address)


def values_of(made, *names):
    """Settings as the learner's process reads them from the launcher's file."""
    return tuple(Settings(**json.loads(made.settings.to_json())).values[name] for name in names)


def test_no_argument_is_the_default_preset(configs):
    made = planned(configs)
    assert made.settings.preset == "small/atari_vtrace.flags"
    file, command = made.logdir / "settings.json", [sys.executable, "-m", "seed_rl"]
    assert made.learners == [[*command, "learner", f"--settings={file}"]]
    assert made.actors == [[*command, "actor", f"--settings={file}", f"--task={task}"] for task in range(3)]
    assert (made.settings.environment, made.settings.agent) == ("atari", "vtrace")
    assert made.logdir == Path("runs/atari_vtrace_Pong").absolute()
    sizes = ("server_address", "num_envs", "env_batch_size", "batch_size", "game", "logdir")
    assert values_of(made, *sizes) == (ADDRESS, 15, 5, 8, "Pong", str(made.logdir))
    assert values_of(planned(configs, "--num_actors=1"), "num_envs") == (5,)


@pytest.mark.parametrize("flag", ["", "--seed=2", "atari", "--game=Breakout", "--total_environment_frames=9"])
def test_a_long_run_that_nobody_chose_is_announced(configs, flag):
    notes = []
    resolved(configs, *filter(None, [flag]), tell=notes.append)
    expected = [(True, True)] * (flag in ("", "--seed=2"))
    assert [("catch" in note, "15 minutes" in note) for note in notes] == expected


def test_a_flagfile_takes_the_place_of_the_preset(configs, tmp_path):
    mine = tmp_path / "mine.flags"
    mine.write_text("--environment=catch\n--num_actors=2\n--num_envs=99\n--task=5")
    made = planned(configs, f"--flagfile={mine}", "--env_batch_size=1")
    assert (made.settings.preset, made.settings.agent) == (None, "vtrace")
    assert values_of(made, "num_envs", "batch_size") == (2, 32)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("vtrace 0", "--num_actors=0 is too low"),
        ("--num_action_repeats=0", "--num_action_repeats=0 is too low"),
        ("vtrace 1 3 --num_env_groups=2", "cannot be split into"),
        ("--num-envs=4", "catch and agent vtrace; did you mean --env_batch_size or --num_actors?"),
        ("--lr=1", "did you mean --learning_rate?"),
        ("sac --lr=1", "did you mean --learning_rate or --actor_learning_rate?"),
        ("--total_timesteps=9", "did you mean --total_environment_frames?"),
        ("ppo --gamma=1", "did you mean --discounting?"),
        ("ppo --gae_lambda=1", "did you mean --lambda_?"),
        ("--xyzzy=1", "--help lists the valid ones."),
        ("--learner_index=1", "Unknown flag --learner_index"),
        ("--seed=1 vtrace", "'vtrace' is not a flag"),
        ("vtrace 3 4 --num_learners=2", "3 actors cannot be split evenly over 2 learners"),
        (
            "vtrace 4 4 --num_learners=2 --batch_size=5",
            "--batch_size=5 cannot be split evenly over 2 learner",
        ),
        ("vtrace --num_gateways=2", "--num_gateways=2 is for actors on other machines"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(configs, args, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        planned(configs, "catch", *args.split())


def test_the_default_address_is_private_removed_and_short_enough_for_all_learners(monkeypatch):
    with plan.private_server_address() as address:
        directory = Path(address.removeprefix("unix:")).parent
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
        assert len(address.removeprefix("unix:").encode()) < 108
    assert not directory.exists()
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        room = plan._SOCKET_PATH_BYTES - len(f"{short}//seed_rl_12345678/learner.sock")
        tight = Path(short) / ("x" * room)
        tight.mkdir()
        monkeypatch.setattr(plan.tempfile, "tempdir", str(tight))
        with plan.private_server_address():
            pass
        sentence = "too long for a unix socket; set TMPDIR"
        with pytest.raises(UsageError, match=sentence), plan.private_server_address(2):
            pass
        assert list(tight.iterdir()) == []


@pytest.mark.parametrize("learners", [1, 2])
def test_a_plan_for_a_cluster_lacks_addresses_and_tasks(configs, tmp_path, monkeypatch, learners):
    monkeypatch.chdir(tmp_path)
    flags = (f"--num_learners={learners}", "--num_gateways=2")
    made = planned(configs, "catch", "vtrace", "2", "3", *flags, address=None)
    assert made.logdir == tmp_path / "runs" / "catch_vtrace"
    assert values_of(made, "num_envs", "server_address", "num_gateways") == (6, None, 2)
    assert {len(command) for command in (*made.learners, *made.actors)} == {5}
    assert (len(made.learners), len(made.actors)) == (learners, 2)


def test_several_learners_have_their_places_and_actors_the_first_address(configs):
    made = planned(configs, "catch", "vtrace", "4", "3", "--num_learners=2")
    hosts = f"--learner_hosts={ADDRESS},{ADDRESS}_1"
    assert [command[5:] for command in made.learners] == [
        [f"--server_address={ADDRESS}{suffix}", hosts, f"--learner_index={i}"]
        for i, suffix in enumerate(("", "_1"))
    ]
    assert values_of(made, "num_envs", "server_address") == (12, ADDRESS)


def test_addresses_of_several_learners_follow_the_first_one():
    assert plan.learner_addresses("127.0.0.1:8686", 3) == [f"127.0.0.1:{port}" for port in (8686, 8687, 8688)]
    assert plan.learner_addresses("[::1]:65534", 2) == ["[::1]:65534", "[::1]:65535"]
    assert plan.learner_addresses("unix:/tmp/s", 2) == ["unix:/tmp/s", "unix:/tmp/s_1"]
    assert plan.learner_addresses("anything", 1) == ["anything"]
    for address in ("localhost", "localhost:65535", "localhost:0"):
        with pytest.raises(UsageError, match=f"--server_address={address} is not valid for 2 learners"):
            plan.learner_addresses(address, 2)
