import json
from pathlib import Path

import pytest

from seed_rl.commands import train
from seed_rl.flags.errors import UsageError
from seed_rl.flags.settings import Settings
from seed_rl.launch import directory
from seed_rl.launch.plan import Plan, make_plan, resolve_run
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.runs import record
from seed_rl.runs.layout import RunDirectory
from seed_rl.runs.lock import held


def planned(*args):
    return make_plan(resolve_run(["seed_rl train", *args]), "unix:/tmp/x")


def plan_of(logdir, total=1000):
    values = {"total_environment_frames": total, "stop_at_return": None}
    return Plan(Settings("catch", "vtrace", values, {}), [["learner"]], [["actor"], ["actor"]], logdir)


def write_run(logdir, args=(), total=1000, complete=True, reached_return=False):
    """Writes the files of a run of this length."""
    flags = (f"--logdir={logdir}", f"--total_environment_frames={total}", *args)
    settings = planned("catch", "vtrace", *flags).settings
    agent = settings.agent_config()
    mine = record.run_identity(settings.environment, settings.environment_config(), settings.agent, agent)
    learner = settings.read(LearnerConfig).to_dict()
    record.write(str(logdir), mine, {"learner": learner, "agent": agent.to_dict()})
    run = RunDirectory(logdir)
    run.saved_model.mkdir(exist_ok=True)
    run.checkpoints.path.mkdir(exist_ok=True)
    (run.checkpoints.path / "ckpt-5.index").touch()
    if complete:
        record.write_complete(str(logdir), reached_return)
    return run


@pytest.mark.parametrize(
    ("args", "words", "name"),
    [
        ("catch vtrace", "vtrace on catch, 2 actors of 16 environments, 150,000 frames", "catch_vtrace"),
        ("catch vtrace 1 1", "1 actor of 1 environment,", "catch_vtrace"),
        ("catch vtrace --seed=0", "preset small/catch_vtrace.flags; ", "catch_vtrace_seed0"),
        ("atari vtrace --game=Pong --seed=3", "training vtrace on atari Pong,", "atari_vtrace_Pong_seed3"),
        ("catch rainbow --seed 3", "training dqn on catch,", "catch_rainbow_seed3"),
        ("catch vtrace 2 16 --num_learners=2 --logdir=runs/b", ", 2 learners, 2 actors", "b"),
    ],
)
def test_a_run_is_introduced_in_two_lines(capsys, args, words, name):
    plan = planned(*args.split())
    assert plan.logdir == Path("runs", name).absolute()
    directory.introduce(plan)
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 2
    assert words in said and said.endswith(f"run directory runs/{name}.\n")


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, set()),
        ({"actor_0.log": "", "actor_1.log": ""}, set()),
        ({"actor_0.log": "seed_rl: error: quoted", "actor_1.log": ""}, set()),
        ({"actor_0.log": "Traceback\nOSError", "actor_1.log": ""}, {"actor_0.log"}),
        ({"mine": ""}, {"mine"}),
        ({"run.json": "{}", "actor_0.log": ""}, {"run.json", "settings.json", "actor_0.log"}),
    ],
)
def test_a_start_that_fails_leaves_nothing_but_what_may_matter(tmp_path, files, left):
    logdir = tmp_path / "runs" / "new"
    with pytest.raises(KeyError), directory.made_directory(plan_of(logdir)):
        for name, content in files.items():
            (logdir / name).write_text(content)
        raise KeyError
    assert {path.name for path in logdir.glob("*")} == left
    assert (tmp_path / "runs").exists() == bool(left)


@pytest.mark.parametrize("is_there", [False, True])
def test_an_environment_function_is_private_and_goes_if_the_run_never_begins(tmp_path, is_there):
    logdir = tmp_path / "run"
    if is_there:
        logdir.mkdir()
    file = RunDirectory(logdir).environment_function("0123456789abcdef")
    with directory.made_directory(plan_of(logdir), (file, b"function")):
        assert file.read_bytes() == b"function"
        assert file.stat().st_mode & 0o777 == 0o600
        settings, other = RunDirectory(logdir).settings, tmp_path / "other"
        other.touch()
        assert settings.stat().st_mode == other.stat().st_mode  # Like all else in a directory that is shared.
    other.unlink()
    assert list(tmp_path.rglob("*")) == ([logdir] if is_there else [])
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be created"):
        with directory.made_directory(plan_of(tmp_path / "file/x")):
            pass


@pytest.mark.parametrize(
    ("args", "command"),
    [
        ("catch vtrace", "catch vtrace --total_environment_frames=2000"),
        ("catch vtrace --total_environment_frames=1000", "catch vtrace --total_environment_frames=2000"),
        ("--game=a$b --seed 3", "'--game=a$b' --seed 3 --total_environment_frames=2000"),
    ],
)
def test_the_next_commands_have_the_paths_and_flags_of_the_run(capsys, tmp_path, args, command):
    logdir = tmp_path / "a run"
    directory.say_next(plan_of(logdir), ["seed_rl train", *args.split()])
    first, *commands = capsys.readouterr().err.splitlines()
    assert str(logdir) in first
    assert commands == [
        f"  seed_rl evaluate '{logdir}'",
        f"  seed_rl plot '{logdir}'",
        f"  seed_rl train {command}",
    ]


@pytest.mark.parametrize(
    "undo",
    [
        lambda run: run.saved_model.rmdir(),
        lambda run: (run.checkpoints.path / "ckpt-5.index").unlink(),
        lambda run: (run.checkpoints.path / "ckpt-6.index").touch(),
        lambda run: run.record.unlink(),
        lambda run: run.record.write_text("[]"),
        lambda run: run.record.write_text('{"complete": "ckpt-5"}'),
        lambda run: write_run(run.path, complete=False),  # It goes on.
    ],
)
def test_a_run_is_done_up_to_its_frames_if_it_is_whole(tmp_path, undo):
    run = write_run(tmp_path)
    assert [record.is_complete(tmp_path, total) for total in (999, 1000, 1001)] == [True, True, False]
    undo(run)
    assert not directory.is_done(plan_of(tmp_path), ["seed_rl train"])


@pytest.mark.parametrize(("asked", "done"), [(None, False), (0.5, True), (0.4, True), (0.6, False)])
def test_a_run_that_ended_at_its_return_is_done_for_that_return(tmp_path, asked, done):
    write_run(tmp_path)
    write_run(tmp_path, ["--stop_at_return=0.5"], reached_return=True)
    assert record.is_complete(tmp_path, 1000, asked) == done


def test_the_command_of_a_complete_run_starts_no_process(tmp_path, monkeypatch, capsys):
    logdir = tmp_path / "run"
    write_run(logdir)
    monkeypatch.setattr(train, "supervise", lambda *args: pytest.fail("a process was started"))
    before = sorted(logdir.rglob("*"))
    args = ["seed_rl train", "catch", "vtrace", f"--logdir={logdir}"]
    assert train.main([*args, "--total_environment_frames=1000"]) == 0
    assert "already complete" in capsys.readouterr().err
    assert sorted(logdir.rglob("*")) == before
    with pytest.raises(UsageError, match="belongs to another run"):
        train.main([*args, "--total_environment_frames=1000", "--lstm_size=7"])


@pytest.mark.parametrize("count", [None, 0, 1, 1234])
def test_the_end_says_how_often_environments_failed_and_where_to_read(tmp_path, capsys, count):
    if count is not None:
        period = {"env_frames": 5, "seconds": 1, "agent_steps": 5, "environment_failures": count}
        RunDirectory(tmp_path).metrics.write_text(json.dumps(period))
    directory.say_failures(plan_of(tmp_path))
    said = capsys.readouterr().err
    assert (f"environments failed {count:,} times" in said and "actor_*.log" in said) if count else not said


def again(capsys, logdir, *args):
    """(whether the command of a run of seed 3 with these flags is done, its words); (None, …) if refused."""
    try:
        plan = planned("catch", "vtrace", f"--logdir={logdir}", *args)
        directory.check_directory(plan)
        done = directory.is_done(plan, ["seed_rl train", "catch", "vtrace", *args])
    except UsageError as refusal:
        assert "another --logdir" in str(refusal)
        return None, str(refusal)
    assert plan.settings.values["seed"] == 3
    return done, capsys.readouterr().err


FRAMES = "--total_environment_frames"


@pytest.mark.parametrize(
    ("frames", "flags", "done", "words"),
    [
        (40000, "", True, "already complete: 40,000 frames"),
        (10000, "", True, "already complete: 40,000 frames"),
        (10000, "--log_period_secs=3", True, f"{FRAMES}=80000"),
        (40000, "--seed=3", True, "already complete"),
        (50000, "", False, ""),
        (50000, "--learning_rate=0.5", False, ""),  # It resumes, and the record has the history.
        (10000, "--learning_rate=0.5", None, "learning_rate 0.005 -> 0.5"),
        (10000, "--discounting=0.5 --optimizer=rmsprop", None, "discounting 0.99 -> 0.5, optimizer adam -> "),
        (10000, "--seed=4", None, "was trained with seed 3, not 4; leave --seed out"),
        (10000, "--rows=9", None, "environment settings rows: 10 there, 9 now"),
    ],
)
def test_a_complete_run_is_done_for_what_it_was_trained_for(tmp_path, capsys, frames, flags, done, words):
    write_run(tmp_path, ["--seed=3"], total=40000)
    found, said = again(capsys, tmp_path, f"{FRAMES}={frames}", *flags.split())
    assert found is done and words in said


def test_another_seed_is_refused_for_a_run_that_goes_on(tmp_path, capsys):
    write_run(tmp_path, ["--seed=3"], complete=False)
    assert again(capsys, tmp_path) == (False, "")
    assert "trained with seed 3, not 1" in again(capsys, tmp_path, "--seed=1")[1]


@pytest.mark.parametrize("taken", [[], ["run.1", "run.2"]])
def test_a_run_that_is_started_anew_keeps_its_files_under_another_name(tmp_path, capsys, monkeypatch, taken):
    monkeypatch.setattr("seed_rl.runs.lock._SAME_HOST_SECS", 0.0)
    logdir = tmp_path / "run"
    directory.set_aside(logdir)  # There is none.
    logdir.mkdir()
    directory.set_aside(logdir)  # Not a run's.
    assert logdir.exists()
    for name in taken:
        (tmp_path / name).mkdir()
    write_run(logdir)
    with held(logdir), pytest.raises(UsageError, match="in use"):
        directory.set_aside(logdir)
    before = {path.name for path in logdir.iterdir()}
    directory.set_aside(logdir)
    new = f"run.{len(taken) + 1}"
    assert {path.name for path in (tmp_path / new).iterdir()} == before
    assert not logdir.exists() and new in capsys.readouterr().err


def test_a_run_of_players_records_no_videos(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    args = ("pettingzoo", "ppo", "--game=classic.tictactoe_v3", f"--logdir={tmp_path / 'run'}")
    with pytest.raises(UsageError, match=r"--record_every_minutes .* one player only; leave it out"):
        train.main(["seed_rl train", *args, "--record_every_minutes=1"])
    assert not list(tmp_path.iterdir())
