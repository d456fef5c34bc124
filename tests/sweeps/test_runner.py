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


def test_the_end_of_a_run_is_its_return_or_its_last_line_unless_it_was_stopped(make_run):
    assert judge(make_run(periods(20)), 0, "") == (18.5, "mean return 18.5 after 1,000 frames")
    silent = make_run([{"env_frames": 1000, "seconds": 1.0}], "seed_2")
    assert judge(silent, 0, "") == (None, "no episode ended within 1,000 frames")
    log = f"its log is {silent.log}"
    words = f"ended with exit code 2 (--game=Pung is not valid.); {log}"
    assert judge(silent, 2, "seed_rl: error: --game=Pung is not valid.") == (None, words)
    assert judge(silent, -signal.SIGKILL, "") == (None, f"was ended by SIGKILL; {log}")
    assert judge(make_run(periods(10, total=990), "seed_3"), 0, "") is None
    assert judge(make_run(name="seed_4"), 0, "") is None
    for code in (129, 130, 143, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP):
        assert judge(silent, code, "") is None
