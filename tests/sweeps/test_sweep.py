"""The command with runs that take no time: bookkeeping, failures, signals, the table."""

import csv
import os
import re
import signal
import statistics
from signal import getsignal

import pytest

from seed_rl.commands import sweep
from seed_rl.flags.errors import UsageError
from seed_rl.flags.flagfile import configs_directory
from seed_rl.runs import lock
from seed_rl.sweeps import runner as runners
from seed_rl.sweeps.runner import Runner
from seed_rl.sweeps.space import read_space
from seed_rl.sweeps.study import Trials, load
from seed_rl.sweeps.trials import Sweep


def table(sweeping):
    with open(sweeping.logdir / "table.csv", newline="") as file:
        return list(csv.DictReader(file))


def expected_return(sweeping, trial, seed):
    return seed + 1000 * sweeping.drawn(trial)["learning_rate"]


def test_all_runs_are_played_and_the_table_has_the_best_first(sweeping, capfd):
    assert sweeping("--trials=4", "--seeds=3", "--parallel=3") == 0
    rows = table(sweeping)
    figures = ["final_return", "standard_error", "seeds_done", "seeds_failed", "state"]
    assert list(rows[0]) == ["trial", "learning_rate", "unroll_length", *figures]
    best = sorted(range(1, 5), key=lambda trial: -sweeping.drawn(trial)["learning_rate"])
    assert [int(row["trial"]) for row in rows] == best
    for row in rows:
        trial = int(row["trial"])
        returns = [expected_return(sweeping, trial, seed) for seed in (1, 2, 3)]
        assert float(row["learning_rate"]) == sweeping.drawn(trial)["learning_rate"]
        assert float(row["final_return"]) == pytest.approx(statistics.fmean(returns))
        assert float(row["standard_error"]) == pytest.approx(statistics.stdev(returns) / 3**0.5)
        assert (row["seeds_done"], row["seeds_failed"], row["state"]) == ("3", "0", "complete")
        for seed in (1, 2, 3):
            run = sweeping.runs()[trial, seed]
            assert (run.state.name, run.value) == ("COMPLETE", pytest.approx(returns[seed - 1]))
            assert run.params == sweeping.drawn(trial) and run.user_attrs["exit_code"] == 0
        trained = sweeping.runs()[trial, 1]
        assert list(trained.intermediate_values) == list(range(300, 1001, 50))
        assert trained.intermediate_values[300] == pytest.approx(returns[0])
    assert re.fullmatch(r"mean return [\d.]+ after 1,004 frames", sweeping.runs()[2, 3].user_attrs["end"])
    assert sweeping.plotted == [([sweeping.logdir], sweeping.logdir / "sorted.png", "sorted")]
    out, err = capfd.readouterr()
    lines = out.splitlines()
    assert lines[0].split() == list(rows[0])
    assert [line.split()[0] for line in lines[1:5]] == [row["trial"] for row in rows]
    assert len({len(line) for line in lines[:5]}) == 1
    assert "seed_rl: 12 of 12 runs left to train" in err
    ended = r"trial 4 of 4, seed 3: mean return [\d.]+ after 1,004 frames \(\d+ of 12 runs done"
    assert len(re.findall(ended, err)) == 1
    assert re.search(r"\(1 of 12 runs done, about \d\d:\d\d left\)", err)
    assert "(12 of 12 runs done)" in err
    assert not list(sweeping.logdir.rglob("*.tmp"))


def test_an_extended_sweep_plays_only_what_is_new(sweeping):
    assert sweeping("--trials=2") == 0
    before = [sweeping.runs()[trial, 1] for trial in (1, 2)]
    assert sweeping("--trials=3", "--seeds=2", "--parallel=2") == 0
    assert [sweeping.runs()[trial, 1] for trial in (1, 2)] == before
    assert [[sweeping.starts(t, s) for s in (1, 2)] for t in (1, 2, 3)] == [[1, 1]] * 3
    # A shorter command takes nothing out of the table.
    assert sweeping("--trials=1") == 0
    assert [row["seeds_done"] for row in table(sweeping)] == ["2", "2", "2"]


def test_a_failed_run_is_shown_left_alone_and_retried_when_asked(sweeping, capfd):
    sweeping.behave(t1s1="fail")
    assert sweeping("--trials=2", "--seeds=2") == 1
    failed = sweeping.runs()[1, 1]
    assert (failed.state.name, failed.user_attrs["exit_code"]) == ("FAIL", 3)
    assert "(out of luck)" in failed.user_attrs["end"]
    assert [sweeping.starts(t, s) for t in (1, 2) for s in (1, 2)] == [1, 1, 1, 1]
    row = next(row for row in table(sweeping) if row["trial"] == "1")
    assert (row["seeds_done"], row["seeds_failed"], row["standard_error"]) == ("1", "1", "")
    assert float(row["final_return"]) == pytest.approx(expected_return(sweeping, 1, 2))
    err = capfd.readouterr().err
    assert (
        "trial 1 of 2, seed 1: ended with exit code 3 (out of luck); its log is "
        f"{sweeping.run(1, 1)}.log (1 of 4 runs done, 1 failed, about "
    ) in err
    assert "1 of 4 runs failed; --retry_failed tries them again." in err

    sweeping.behave()
    assert sweeping("--trials=2", "--seeds=2") == 1
    assert sweeping.starts(1, 1) == 1
    assert sweeping("--trials=2", "--seeds=2", "--retry_failed") == 0
    assert sweeping.starts(1, 1) == 2 and sweeping.starts(1, 2) == 1
    assert sweeping.runs()[1, 1].state.name == "COMPLETE"


def test_trials_without_a_return_come_last_and_without_any_there_is_no_picture(sweeping):
    sweeping.behave(t1s1="fail", t2s1="fail")
    assert sweeping("--trials=2") == 1
    assert sweeping.plotted == []
    assert [row["final_return"] for row in table(sweeping)] == ["", ""]
    assert sweeping("--trials=3") == 1
    assert [row["trial"] for row in table(sweeping)] == ["3", "1", "2"]
    assert len(sweeping.plotted) == 1


def test_a_run_stopped_from_outside_goes_on_with_the_next_command(sweeping, capfd):
    sweeping.behave(t1s1="stop")
    assert sweeping("--trials=2") == 1
    assert [sweeping.runs()[trial, 1].state.name for trial in (1, 2)] == ["RUNNING", "COMPLETE"]
    stopped = "trial 1 of 2, seed 1 was stopped from outside; the same command resumes it"
    assert stopped in capfd.readouterr().err
    sweeping.behave()
    assert sweeping("--trials=2") == 0
    assert (sweeping.starts(1, 1), sweeping.starts(2, 1)) == (2, 1)


def signalled(sweeping, monkeypatch, number, ready):
    """A sweep of three trials, two at a time, that gets a signal when these runs are there; the lines."""
    sweep = Sweep(read_space(sweeping.space), sweeping.logdir, 3, 1)
    lines = []

    def say(line):
        lines.append(line)
        if "starts" in line and f"trial {len(ready)} of" in line:
            files = [sweeping.run(trial, 1) / "ready" for trial in ready]
            sweeping.wait_until(lambda: all(file.exists() for file in files), files)
            os.kill(os.getpid(), number)

    with lock.held(sweeping.logdir):
        trials = Trials(load(sweeping.logdir, sweep.identity), sweep, 3, 1, "random", False)
        monkeypatch.setattr(runners, "say", say)
        assert Runner(trials, 2).run() == 128 + number
    return lines


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_passed_on_once_and_leaves_nothing_running(sweeping, number, monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_DFL)  # Even under nohup.
    children = []
    kept = runners.Child.start
    monkeypatch.setattr(runners.Child, "start", lambda self: children.append(self) or kept(self))
    before = getsignal(number)
    sweeping.behave(t1s1="wait", t2s1="wait")
    lines = signalled(sweeping, monkeypatch, number, ready=(1, 2))
    assert getsignal(number) == before
    assert len(children) == 2 and not any(child.running for child in children)
    for trial in (1, 2):
        assert (sweeping.run(trial, 1) / "signals").read_text() == "SIGTERM\n"
        assert sweeping.runs()[trial, 1].state.name == "RUNNING"
    assert sweeping.starts(3, 1) == 0
    assert lines[-2].startswith("stopping; 2 runs may write a checkpoint")
    assert lines[-1] == "stopped; the same command resumes it."


def test_a_run_that_ends_well_while_the_sweep_stops_is_done(sweeping, monkeypatch):
    sweeping.behave(t1s1="wait", t2s1="wait")
    # All frames were played before the signal came.
    fake = sweeping.space.with_name("fake_main.py")
    fake.write_text(fake.read_text().replace("frames = 500", "frames = 1000"))
    signalled(sweeping, monkeypatch, signal.SIGTERM, ready=(1, 2))
    ends = [sweeping.runs()[trial, 1].user_attrs["end"] for trial in (1, 2)]
    assert all(end.endswith(" after 1,000 frames") for end in ends)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_sweep_ends_with_the_signals_code_and_the_same_command_completes_it(
    sweeping, monkeypatch, capfd, number
):
    sweeping.behave(t2s1="wait")
    start = runners.Child.start

    def start_and_signal(child):
        start(child)
        if "trial 2" in child.name:
            ready = sweeping.run(2, 1) / "ready"
            sweeping.wait_until(ready.exists, ready)
            os.kill(os.getpid(), number)

    monkeypatch.setattr(runners.Child, "start", start_and_signal)
    assert sweeping("--trials=3") == 128 + number
    assert [(row["seeds_done"], row["state"]) for row in table(sweeping)] == [
        ("1", "complete"),
        ("0", "running"),
    ]
    assert sweeping.plotted == [] and capfd.readouterr().out == ""
    monkeypatch.setattr(runners.Child, "start", start)
    sweeping.behave()
    assert sweeping("--trials=3") == 0
    assert [sweeping.starts(trial, 1) for trial in (1, 2, 3)] == [1, 2, 1]


def test_a_trial_that_falls_behind_is_pruned_with_all_of_its_runs(sweeping, monkeypatch, capfd):
    monkeypatch.setattr(runners, "_LOOK_SECS", 0.05)
    asked = ("--seeds=2", "--parallel=2", "--pruner=median")
    assert sweeping("--trials=5", *asked) == 0
    # Trial 7 would be pruned if the runner read its returns before its end.
    sweeping.behave(t6s1="lose", t6s2="wait", t7s1="win")
    assert sweeping("--trials=7", *asked) == 0
    states = {row["trial"]: (row["state"], row["seeds_done"]) for row in table(sweeping)}
    assert states["6"] == ("pruned", "0") and states["7"] == ("complete", "2")
    pruned = sweeping.runs()[6, 1]
    assert pruned.state.name == "PRUNED" and list(pruned.intermediate_values) == [300]
    assert (sweeping.run(6, 1) / "signals").read_text() == "SIGTERM\n"
    assert sweeping.runs()[6, 2].state.name == "PRUNED"  # Its process would wait for ever.
    starts = [sweeping.starts(6, seed) for seed in (1, 2, 3)]
    assert "trial 6 of 7, seed 1: pruned (" in capfd.readouterr().err
    # It stays pruned.
    assert sweeping("--trials=7", "--seeds=3", "--parallel=2", "--retry_failed") == 0
    assert [sweeping.starts(6, seed) for seed in (1, 2, 3)] == starts
    assert sweeping.starts(7, 3) == 1


def test_without_a_pruner_a_trial_that_falls_behind_goes_on(sweeping, monkeypatch):
    monkeypatch.setattr(runners, "_LOOK_SECS", 0.0)
    assert sweeping("--trials=5") == 0
    fake = sweeping.space.with_name("fake_main.py")
    fake.write_text(fake.read_text().replace("get(what, 0)", "get('lose')"))
    assert sweeping("--trials=6") == 0
    assert [row["state"] for row in table(sweeping)] == ["complete"] * 6


def test_a_sweep_with_tpe_is_resumed_with_what_it_has_learned(sweeping, capfd):
    assert sweeping("--trials=10", "--parallel=2") == 0
    assert sweeping("--trials=14", "--sampler=tpe") == 0
    values = [sweeping.runs()[trial, 1].params for trial in range(1, 15)]
    assert values[:10] == [sweeping.drawn(trial) for trial in range(1, 11)]
    assert values[10:] != [sweeping.drawn(trial) for trial in range(11, 15)]
    assert "Importance: learning_rate " in capfd.readouterr().out


def test_a_dry_run_prints_what_is_left_and_writes_nothing(sweeping, capsys):
    assert sweeping("--trials=2", "--dry_run", "--clip_norm=3") == 0
    assert not sweeping.logdir.exists()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    preset = f"--flagfile={configs_directory() / 'small/catch_vtrace.flags'}"
    assert (
        f" -m fake_main {preset} --environment=catch --agent=vtrace " in lines[0]
        and "--clip_norm=3" in lines[0]
    )
    assert sweeping("--trials=1", "--clip_norm=3") == 0
    before = sweeping.contents()
    capsys.readouterr()
    assert sweeping("--trials=2", "--dry_run", "--clip_norm=3") == 0
    assert capsys.readouterr().out.splitlines() == lines[1:]
    assert sweeping.contents() == before


def test_another_space_seed_or_flag_is_refused_and_nothing_is_touched(sweeping):
    assert sweeping("--trials=1") == 0
    before = sweeping.contents()
    with pytest.raises(UsageError, match=r"belongs to another sweep \(.*sweep_seed: 1 there, 2 now\)"):
        sweeping("--trials=1", "--sweep_seed=2")
    with pytest.raises(UsageError, match=r"\(flags clip_norm: None there, 3.0 now\)"):
        sweeping("--trials=1", "--clip_norm=3", "--dry_run")
    assert sweeping.contents() == before


def test_a_flagfile_of_the_command_line_gives_way_to_the_space(sweeping, tmp_path, capsys):
    (tmp_path / "mine.flags").write_text("--learning_rate=7\n--clip_norm=5\n")
    assert sweeping("--trials=1", f"--flagfile={tmp_path / 'mine.flags'}", "--dry_run") == 0
    assert f"--flagfile={tmp_path / 'mine.flags'} --learning_rate=0.00" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--trials=0"], "--trials=0 is too low; it must be at least 1."),
        (["--space=none.yaml"], "and --space say the same thing"),
        (["catch"], "The argument 'catch' is one too many"),
        (["--sampler=tpe", "--dry_run"], "--dry_run cannot print what --sampler=tpe draws"),
        (["--sampler=grid"], "--sampler=grid is not valid; choose one of: random, tpe."),
        (["--trails=3"], "Unknown flag --trails for environment catch"),
    ],
)
def test_bad_use_is_refused_before_anything_is_written(sweeping, args, words):
    with pytest.raises(UsageError) as caught:
        sweeping(*args)
    assert words in str(caught.value)
    assert not sweeping.logdir.exists()


def test_a_picture_that_cannot_be_drawn_is_one_line(sweeping, monkeypatch, capsys):
    def no_matplotlib(module, extra):
        if module == "matplotlib":
            raise UsageError("The package matplotlib is not installed.")

    monkeypatch.setattr(sweep, "require_package", no_matplotlib)
    assert sweeping("--trials=1") == 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith("sorted.png: The package matplotlib is not installed.")
