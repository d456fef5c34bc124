"""What is read of a run, and what is said before there is enough."""

import contextlib
import json
import os
import socket

import pytest

from seed_rl.commands import doctor
from seed_rl.diagnosis.evidence import NEEDED, TooFewError, gather
from seed_rl.diagnosis.report import report, watch
from seed_rl.flags.errors import UsageError
from seed_rl.runs import lock, record
from seed_rl.runs.layout import RunDirectory
from tests.plotting.synthetic import write_run

SETTINGS = {"log_period_secs": 10.0}


def period(number, waiting=0.85, **figures):
    """The figures of period `number` of a run whose actors are slow."""
    return {
        "env_frames": 1000 * number,
        "updates": 20 * number,
        "seconds": 10.0 * number,
        "frames_per_second": 100.0,
        "inference_waiting_share": waiting,
        "inference_blocked_share": 0.0,
        "training_waiting_share": 0.9,
        "inference_latency_p50_ms": 1.0,
        "actor_turn_ms": 10.0,
        **figures,
    }


def older(number):
    """The same, written by a version that did not measure what waits."""
    return {name: value for name, value in period(number).items() if name not in NEEDED}


def too_few(periods):
    with pytest.raises(TooFewError) as caught:
        gather(periods, SETTINGS)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def run(tmp_path):
    """The record of a run without metrics."""
    return record.read(str(write_run(tmp_path / "run", metrics=False)))


def add(run, *periods):
    with open(RunDirectory(run.logdir).metrics, "a") as file:
        file.writelines(json.dumps(each) + "\n" for each in periods)


def test_figures_are_medians_of_the_last_periods():
    periods = [period(n, waiting=0.1) for n in range(1, 6)] + [period(n) for n in range(6, 15)]
    evidence, last = gather([*periods, period(15, waiting=0.0, passing=3.0)], SETTINGS)
    assert [each["env_frames"] for each in last] == list(range(6000, 16000, 1000))
    assert evidence.figures["inference_waiting_share"] == 0.85  # A last period in which all stood still.
    assert evidence.figures["passing"] == 3.0


def test_nothing_is_told_from_too_few_periods():
    assert "(2 of 3 periods); try again when the run has trained for 30 s" in too_few([period(1), period(2)])
    assert "(0 of 3 periods)" in too_few([])
    assert "(0 of 3 periods)" in too_few([older(1), older(2)])
    gather([period(1), period(2), period(3)], SETTINGS)


def test_a_run_of_an_older_version_says_so():
    old = [older(n) for n in range(1, 5)]
    assert "a version of seed_rl that did not measure" in too_few(old)
    assert "(1 of 3 periods)" in too_few([*old, period(5)])  # It has been resumed by this one.


def test_a_report_is_a_few_lines(run):
    add(run, *(period(n) for n in range(1, 6)))
    head, *findings = report(run)
    assert head == f"{run.logdir}: 100 frames/s and 2.0 updates/s in the last 5 periods."
    assert findings[0].startswith("The actors bound this run: inference waits for them 85% of the time")
    assert len(findings) <= 4


def test_live_reports_on_each_period_and_ends_with_the_run(run):
    said = []
    with contextlib.ExitStack() as training:
        training.enter_context(lock.held(run.logdir))
        numbers = iter(range(1, 8))

        def sleep(seconds):
            """Another period passes, except for the fourth; after the seventh, training ends."""
            if (number := next(numbers, None)) is None:
                training.close()
            elif number != 4:  # Nothing is said without news.
                add(run, period(number))

        watch(run, said.append, sleep)
    assert [len(lines) for lines in said[:2]] == [1, 1]  # One period and two are too few.
    assert len(said) == 8  # Of 1 to 6 periods; the last once more when it ends; and that it has ended.
    assert all("in the last 3 periods" in lines[0] for lines in said[2:7])
    assert said[-1] == ["No learner trains in this directory now."]


def test_live_looks_at_the_cpu_use_of_a_learner_on_this_machine(run, monkeypatch):
    add(run, *(period(n, learner_cpu_cores=9.0) for n in range(1, 6)))
    looked_at, said = [], []

    class Cpu:
        def __init__(self, pid):
            looked_at.append(pid)

        def take(self):
            return {
                "learner_cpu_cores": 0.5,
                "machine_cores": 4.0,
                "actor_processes": 2.0,
                "actor_cpu_cores": 0.25,
            }

    monkeypatch.setattr("seed_rl.diagnosis.report.RunCpu", Cpu)
    with contextlib.ExitStack() as training:
        training.enter_context(lock.held(run.logdir))
        watch(run, said.append, lambda seconds: training.close())
    assert looked_at == [os.getpid()]
    assert said[0][0].endswith("Now the learner uses 0.50 cores and 2 actors use 0.25, of 4.")
    assert "2 processes use 0.2 cores" in said[0][1]


def test_live_leaves_out_the_cpu_of_a_learner_elsewhere(run, monkeypatch):
    add(run, *(period(n) for n in range(1, 6)))
    held = [None, lock.Holder(str(os.getpid()), f"not-{socket.gethostname()}")]
    monkeypatch.setattr(lock, "holder", lambda logdir: held.pop())
    said = []
    watch(run, said.append, lambda seconds: None)
    assert "Now the learner" not in said[0][0]


def refused(*args):
    with pytest.raises(UsageError) as caught:
        doctor.main(["doctor", *map(str, args)])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_command_prints_the_report(run, capsys):
    add(run, *(period(n) for n in range(1, 6)))
    assert doctor.main(["doctor", str(run.logdir)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 2 <= len(lines) <= 5
    assert lines == report(run)
    assert doctor.main(["doctor", str(run.logdir), "--live"]) == 0  # Nobody trains: once is enough.
    assert capsys.readouterr().out.splitlines()[-1] == "No learner trains in this directory now."


def test_what_is_no_run_is_refused(tmp_path):
    assert "contains no run.json, so it is not a run directory" in refused(tmp_path)
    assert "is not a directory" in refused(tmp_path / "nowhere")
    assert refused().startswith("No run is given")
    assert "is one too many" in refused(tmp_path, tmp_path)
    assert "--life" in refused(tmp_path, "--life")


def test_a_run_that_has_just_started_has_too_few_figures(run):
    assert "too few figures yet (0 of 3 periods)" in "".join(report(run))
