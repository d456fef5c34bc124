import json
from pathlib import Path

import pytest

from seed_rl.commands import train
from seed_rl.flags.errors import UsageError
from seed_rl.flags.settings import Settings
from seed_rl.launch import directory
from seed_rl.launch.plan import Plan, make_plan, resolve_run
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.messages import say
from seed_rl.runs import record
from seed_rl.runs.layout import RunDirectory
from seed_rl.runs.lock import held


def planned(*args):
    return make_plan(resolve_run(["seed_rl train", *args]), "unix:/tmp/x")


def plan_of(logdir, total=1000):
    values = {"total_environment_frames": total, "stop_at_return": None}
    return Plan(Settings("catch", "vtrace", values, {}), [["learner"]], [["actor"], ["actor"]], logdir)


def write_run(logdir, args=(), total=1000, complete=True):
    """Writes the files of a run of this length."""
    flags = (f"--logdir={logdir}", f"--total_environment_frames={total}", *args)
    settings = planned("catch", "vtrace", *flags).settings
    agent = settings.agent_config()
    mine = record.run_identity(settings.environment, settings.environment_config(), settings.agent, agent)
    learner = settings.read(LearnerConfig).to_dict()
    record.write(str(logdir), mine, {"learner": learner, "agent": agent.to_dict()})
    run = RunDirectory(logdir)
    run.saved_model.mkdir()
    run.checkpoints.path.mkdir()
    (run.checkpoints.path / "ckpt-5.index").touch()
    if complete:
        record.write_complete(str(logdir), reached_return=False)
    return run


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("catch vtrace", ["training vtrace on catch, 2 actors of 16 environments, 150,000 frames"]),
        ("catch vtrace 1 1", ["1 actor of 1 environment,"]),
        ("catch vtrace", ["preset small/catch_vtrace.flags; run directory runs/catch_vtrace."]),
        (
            "atari vtrace --game=Pong",
            ["training vtrace on atari Pong,", "run directory runs/atari_vtrace_Pong."],
        ),
        ("catch vtrace 2 16 --num_learners=2 --logdir=a/b", [", 2 learners, 2 actors", "run directory a/b."]),
    ],
)
def test_a_run_is_introduced_in_two_lines(capsys, args, words):
    directory.introduce(planned(*args.split()))
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 2
    for word in words:
        assert word in said


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
    assert tmp_path.exists()


def test_a_directory_that_was_there_stays(tmp_path):
    with directory.made_directory(plan_of(tmp_path)):
        pass
    assert tmp_path.is_dir()


def test_a_directory_that_cannot_be_made_is_a_usage_error(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(UsageError, match="cannot be created"),
        directory.made_directory(plan_of(tmp_path / "file/x")),
    ):
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


def is_done(logdir, total=1000):
    return directory.is_done(plan_of(logdir, total), ["seed_rl train"])


def test_a_run_is_done_up_to_the_frames_that_it_was_trained_for(tmp_path):
    write_run(tmp_path)
    assert is_done(tmp_path) and is_done(tmp_path, 999)
    assert not is_done(tmp_path, 1001)


@pytest.mark.parametrize(
    "undo",
    [
        lambda run: run.saved_model.rmdir(),
        lambda run: (run.checkpoints.path / "ckpt-5.index").unlink(),
        lambda run: (run.checkpoints.path / "ckpt-6.index").touch(),
        lambda run: run.record.unlink(),
        lambda run: run.record.write_text("[]"),
        lambda run: run.record.write_text('{"complete": "ckpt-5"}'),
    ],
)
def test_a_run_that_is_not_whole_is_not_done(tmp_path, undo):
    undo(write_run(tmp_path))
    assert not is_done(tmp_path)


def test_a_run_that_was_stopped_or_goes_on_is_not_done(tmp_path):
    run = write_run(tmp_path, complete=False)
    assert not is_done(tmp_path)
    record.write_complete(str(tmp_path), reached_return=False)
    assert is_done(tmp_path)
    known = record.read(str(tmp_path))
    record.write(
        str(run.path), known.identity, {"learner": known.learner_settings, "agent": known.agent_settings}
    )
    assert not is_done(tmp_path)


@pytest.mark.parametrize(("asked", "done"), [(None, False), (0.5, True), (0.4, True), (0.6, False)])
def test_a_run_that_ended_at_its_return_is_done_for_that_return(tmp_path, asked, done):
    write_run(tmp_path)
    known = record.read(str(tmp_path))
    settings = {"learner": known.learner_settings | {"stop_at_return": 0.5}, "agent": known.agent_settings}
    record.write(str(tmp_path), known.identity, settings)
    record.write_complete(str(tmp_path), reached_return=True)
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


def test_commands_that_are_said_are_printable(capsys):
    say("next:", "a\x1b[2Jb\nc")
    assert capsys.readouterr().err == "seed_rl: next:\n  a\\x1b[2Jb\\nc\n"


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


@pytest.mark.parametrize("count", [0, 1, 1234])
def test_the_end_says_how_often_environments_failed_and_where_to_read(tmp_path, capsys, count):
    run = RunDirectory(tmp_path)
    run.metrics.write_text(
        json.dumps({"env_frames": 5, "seconds": 1, "agent_steps": 5, "environment_failures": count})
    )
    directory.say_failures(plan_of(tmp_path))
    said = capsys.readouterr().err
    assert f"environments failed {count:,} times" in said and "actor_*.log" in said if count else not said


@pytest.mark.parametrize("content", [None, "", "{}", "nonsense"])
def test_a_run_without_metrics_says_nothing_of_failures(tmp_path, capsys, content):
    if content is not None:
        RunDirectory(tmp_path).metrics.write_text(content)
    directory.say_failures(plan_of(tmp_path))
    assert "environments failed" not in capsys.readouterr().err


def again(logdir, *args):
    """Result of the launcher's checks for the command of a complete run with these flags."""
    plan = planned("catch", "vtrace", f"--logdir={logdir}", *args)
    directory.check_directory(plan)
    return directory.is_done(plan, ["seed_rl train", "catch", "vtrace", *args]), plan.settings.values["seed"]


FRAMES = "--total_environment_frames"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([f"{FRAMES}=40000"], "already complete: 40,000 frames"),
        ([f"{FRAMES}=10000"], "already complete: 40,000 frames"),
        ([f"{FRAMES}=10000", "--log_period_secs=3"], f"{FRAMES}=80000"),
        ([f"{FRAMES}=40000", "--seed=3"], "already complete"),
        ([f"{FRAMES}=50000"], None),
        ([f"{FRAMES}=50000", "--learning_rate=0.5"], None),  # It resumes, and the record has the history.
    ],
)
def test_a_complete_run_is_done_for_what_it_was_trained_for(tmp_path, capsys, args, words):
    write_run(tmp_path, ["--seed=3"], total=40000)
    done, seed = again(tmp_path, *args)
    assert done == (words is not None)
    assert (words or "") in capsys.readouterr().err
    assert seed == 3


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--learning_rate=0.5"], "learning_rate 0.001 -> 0.5"),
        (["--discounting=0.5", "--optimizer=rmsprop"], "discounting 0.99 -> 0.5, optimizer adam -> rmsprop"),
        (["--seed=4"], "was trained with seed 3, not 4; leave --seed out"),
        (["--rows=9"], "environment settings rows: 10 there, 9 now"),
    ],
)
def test_a_run_with_other_settings_is_not_taken_for_a_complete_one(tmp_path, args, words):
    write_run(tmp_path, ["--seed=3", "--learning_rate=0.001"], total=40000)
    with pytest.raises(UsageError) as caught:
        again(tmp_path, f"{FRAMES}=10000", "--learning_rate=0.001", *args)
    assert words in str(caught.value)
    assert "another --logdir" in str(caught.value)


def test_another_seed_is_refused_for_a_run_that_goes_on(tmp_path):
    write_run(tmp_path, ["--seed=3"], complete=False)
    assert again(tmp_path)[1] == 3
    with pytest.raises(UsageError, match="trained with seed 3, not 1"):
        again(tmp_path, "--seed=1")


@pytest.mark.parametrize("taken", [[], ["run.1", "run.2"]])
def test_a_run_that_is_started_anew_keeps_its_files_under_another_name(tmp_path, capsys, taken):
    logdir = tmp_path / "run"
    directory.set_aside(logdir)  # There is none.
    logdir.mkdir()
    directory.set_aside(logdir)  # Not a run's.
    assert logdir.exists()
    for name in taken:
        (tmp_path / name).mkdir()
    write_run(logdir)
    before = {path.name for path in logdir.iterdir()}
    directory.set_aside(logdir)
    new = f"run.{len(taken) + 1}"
    assert {path.name for path in (tmp_path / new).iterdir()} == before
    assert not logdir.exists() and new in capsys.readouterr().err


def test_a_run_that_trains_is_not_set_aside(tmp_path, monkeypatch):
    monkeypatch.setattr("seed_rl.runs.lock._SAME_HOST_SECS", 0.0)
    write_run(tmp_path / "run")
    with held(tmp_path / "run"), pytest.raises(UsageError, match="in use"):
        directory.set_aside(tmp_path / "run")
    assert (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("args", "name"),
    [
        ("catch vtrace", "catch_vtrace"),
        ("catch vtrace --seed=3", "catch_vtrace_seed3"),
        ("catch vtrace --seed=0", "catch_vtrace_seed0"),
        ("atari vtrace --game=Pong --seed=3", "atari_vtrace_Pong_seed3"),
        ("catch rainbow --seed 3", "catch_rainbow_seed3"),
    ],
)
def test_a_seed_that_was_given_is_in_the_default_name(args, name):
    assert planned(*args.split()).logdir == Path("runs", name).absolute()
