import json
import signal

import pytest

from seed_rl.sweeps import outcome
from seed_rl.sweeps.outcome import Outcome


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
        return path

    return make


def test_a_complete_run_has_its_figures(make_run):
    found = outcome.judge(make_run(periods(20)), 1000, 0, "Training is complete")
    assert found == Outcome(0, 18.5, "mean_return", 1000, 1.0)
    assert not found.failed


def test_a_failed_run_has_its_last_line(make_run):
    found = outcome.judge(make_run(), 1000, 2, "seed_rl: error: --game=Pung is not valid.")
    assert found == Outcome(2, last_line="--game=Pung is not valid.")
    assert found.failed
    assert outcome.judge(make_run(name="seed_2"), 1000, -signal.SIGKILL, "").failed


def test_a_run_that_was_stopped_is_not_over(make_run):
    assert outcome.judge(make_run(periods(10, total=990)), 1000, 0, "") is None
    assert outcome.judge(make_run(name="seed_2"), 1000, 0, "") is None
    for code in (129, 130, 143, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP):
        assert outcome.judge(make_run(periods(10), name=f"seed_{500 + code}"), 1000, code, "") is None
