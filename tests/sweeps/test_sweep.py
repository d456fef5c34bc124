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
from seed_rl.sweeps import runner as runners


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
        runs = [sweeping.runs()[trial, seed] for seed in (1, 2, 3)]
        assert [run.value for run in runs] == pytest.approx(returns)
        assert all((run.state.name, run.params) == ("COMPLETE", sweeping.drawn(trial)) for run in runs)
        assert all(run.user_attrs["exit_code"] == 0 for run in runs)
        assert list(runs[0].intermediate_values) == list(range(300, 1001, 50))
        assert runs[0].intermediate_values[300] == pytest.approx(returns[0])
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


def test_an_extended_sweep_plays_only_what_is_new_and_another_one_is_refused(sweeping):
    assert sweeping("--trials=2") == 0
    kept = [sweeping.runs()[trial, 1] for trial in (1, 2)]
    assert sweeping("--trials=3", "--seeds=2", "--parallel=2") == 0
    assert [sweeping.runs()[trial, 1] for trial in (1, 2)] == kept
    assert [[sweeping.starts(t, s) for s in (1, 2)] for t in (1, 2, 3)] == [[1, 1]] * 3
    # A shorter command takes nothing out of the table.
    assert sweeping("--trials=1") == 0
    assert [row["seeds_done"] for row in table(sweeping)] == ["2", "2", "2"]
    before = sweeping.contents()
    with pytest.raises(UsageError, match=r"belongs to another sweep \(.*sweep_seed: 1 there, 2 now\)"):
        sweeping("--trials=1", "--sweep_seed=2")
    with pytest.raises(UsageError, match=r"\(flags clip_norm: None there, 3.0 now\)"):
        sweeping("--trials=1", "--clip_norm=3", "--dry_run")
    assert sweeping.contents() == before


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


def test_trials_without_a_return_come_last_and_a_picture_that_cannot_be_drawn_is_one_line(
    sweeping, monkeypatch, capsys
):
    def no_matplotlib(module, extra):
        if module == "matplotlib":
            raise UsageError("The package matplotlib is not installed.")

    sweeping.behave(t1s1="fail", t2s1="fail")
    assert sweeping("--trials=2") == 1
    assert sweeping.plotted == []
    assert [row["final_return"] for row in table(sweeping)] == ["", ""]
    monkeypatch.setattr(sweep, "require_package", no_matplotlib)
    assert sweeping("--trials=3") == 1
    assert [row["trial"] for row in table(sweeping)] == ["3", "1", "2"]
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith("sorted.png: The package matplotlib is not installed.")


def test_a_run_stopped_from_outside_goes_on_with_the_next_command(sweeping, capfd):
    sweeping.behave(t1s1="stop")
    assert sweeping("--trials=2") == 1
    assert [sweeping.runs()[trial, 1].state.name for trial in (1, 2)] == ["RUNNING", "COMPLETE"]
    stopped = "trial 1 of 2, seed 1 was stopped from outside; the same command resumes it"
    assert stopped in capfd.readouterr().err
    sweeping.behave()
    assert sweeping("--trials=2") == 0
    assert (sweeping.starts(1, 1), sweeping.starts(2, 1)) == (2, 1)


@pytest.fixture
def children(sweeping, monkeypatch):
    """The children of a sweep, which gets the signal `children.number` when the second one is ready."""
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_DFL)  # Even under nohup.

    class Children(list):
        number = 0

    started, start = Children(), runners.Child.start

    def start_and_signal(child):
        start(child)
        started.append(child)
        if started.number and len(started) == 2:
            for trial in sweeping.waiting:
                ready = sweeping.run(trial, 1) / "ready"
                sweeping.wait_until(ready.exists, str(ready))
            os.kill(os.getpid(), started.number)

    monkeypatch.setattr(runners.Child, "start", start_and_signal)
    return started


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_passed_on_once_and_the_same_command_resumes(sweeping, children, capfd, number):
    before, children.number, sweeping.waiting = getsignal(number), number, (2,)
    sweeping.behave(t2s1="wait")
    assert sweeping("--trials=3") == 128 + number
    assert getsignal(number) == before
    assert len(children) == 2 and not any(child.running for child in children)
    assert (sweeping.run(2, 1) / "signals").read_text() == "SIGTERM\n"
    assert [(row["seeds_done"], row["state"]) for row in table(sweeping)] == [
        ("1", "complete"),
        ("0", "running"),
    ]
    said = capfd.readouterr()
    assert sweeping.plotted == [] and said.out == ""
    *_, stopping, stopped = said.err.splitlines()
    assert "stopping; 1 run may write a checkpoint" in stopping
    assert stopped == "seed_rl: stopped; the same command resumes it."
    sweeping.behave()
    assert sweeping("--trials=3") == 0
    assert [sweeping.starts(trial, 1) for trial in (1, 2, 3)] == [1, 2, 1]


def test_runs_that_end_well_while_the_sweep_stops_are_done(sweeping, children):
    children.number, sweeping.waiting = signal.SIGTERM, (1, 2)
    sweeping.behave(t1s1="wait", t2s1="wait")
    # All frames were played before the signal came.
    fake = sweeping.space.with_name("fake_main.py")
    fake.write_text(fake.read_text().replace("frames = 500", "frames = 1000"))
    assert sweeping("--trials=3", "--parallel=2") == 128 + signal.SIGTERM
    ends = [sweeping.runs()[trial, 1].user_attrs["end"] for trial in (1, 2)]
    assert all(end.endswith(" after 1,000 frames") for end in ends)


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
    (sweeping.space.parent / "mine.flags").write_text("--learning_rate=7\n--clip_norm=5\n")
    mine = f"--flagfile={sweeping.space.parent / 'mine.flags'}"
    assert sweeping("--trials=1", mine, "--dry_run") == 0
    assert f"{mine} --learning_rate=0.00" in capsys.readouterr().out  # It gives way to the space.
    assert sweeping("--trials=1", "--clip_norm=3") == 0
    before = sweeping.contents()
    capsys.readouterr()
    assert sweeping("--trials=2", "--dry_run", "--clip_norm=3") == 0
    assert capsys.readouterr().out.splitlines() == lines[1:]
    assert sweeping.contents() == before


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
