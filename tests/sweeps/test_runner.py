import json
import signal

import pytest

from seed_rl.sweeps.runner import judge
from seed_rl.sweeps.trials import SweepRun


def periods(count, total=1000):
    return [
        {"env_frames": total * (i + 1) // count, "seconds": 1.0, "mean_return": float(i)}
        for i in range(count)
    ]


@pytest.fixture
def make_run(tmp_path):
    """Makes a run directory with the given metrics."""

    def make(periods=(), name="seed_1"):
        path = tmp_path / name
        path.mkdir()
        lines = [json.dumps(period) + "\n" for period in periods]
        (path / "metrics.jsonl").write_text("".join(lines))
        return SweepRun(1, 1, {}, [], path, path.with_suffix(".log"), 1000)

    return make


def test_a_complete_run_has_its_return(make_run):
    assert judge(make_run(periods(20)), 0, "") == (18.5, "mean return 18.5 after 1,000 frames")
    silent = [{"env_frames": 1000, "seconds": 1.0}]
    assert judge(make_run(silent, "seed_2"), 0, "") == (None, "no episode ended within 1,000 frames")


def test_a_failed_run_has_its_last_line(make_run):
    run = make_run()
    value, words = judge(run, 2, "seed_rl: error: --game=Pung is not valid.")
    assert value is None
    assert words == f"ended with exit code 2 (--game=Pung is not valid.); its log is {run.log}"
    assert judge(run, -signal.SIGKILL, "") == (None, f"was ended by SIGKILL; its log is {run.log}")


def test_a_run_that_was_stopped_is_not_over(make_run):
    assert judge(make_run(periods(10, total=990)), 0, "") is None
    assert judge(make_run(name="seed_2"), 0, "") is None
    for code in (129, 130, 143, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP):
        assert judge(make_run(periods(10), name=f"seed_{500 + code}"), code, "") is None
