import signal

import pytest

from seed_rl.sweeps import outcome
from seed_rl.sweeps.outcome import Outcome


def periods(count, total=1000):
    return [
        {"env_frames": total * (i + 1) // count, "seconds": 1.0, "mean_return": float(i)}
        for i in range(count)
    ]


def test_a_complete_run_has_its_figures(make_run):
    found = outcome.judge(make_run(periods(20)), 0, "Training is complete")
    assert found == Outcome(0, 18.5, "mean_return", 1000, 1.0)
    assert not found.failed


def test_a_failed_run_has_its_last_line(make_run):
    found = outcome.judge(make_run(), 2, "seed_rl: error: --game=Pung is not valid.")
    assert found == Outcome(2, last_line="--game=Pung is not valid.")
    assert found.failed
    assert outcome.judge(make_run(name="seed_2"), -signal.SIGKILL, "").failed


def test_a_run_that_was_stopped_is_not_over(make_run):
    assert outcome.judge(make_run(periods(10, total=990)), 0, "") is None
    assert outcome.judge(make_run(name="seed_2"), 0, "") is None
    for code in (129, 130, 143, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP):
        assert outcome.judge(make_run(periods(10), name=f"seed_{500 + code}"), code, "") is None


def test_outcomes_are_read_as_they_were_written(make_run):
    run = make_run()
    assert outcome.read(run.outcome) is None
    for found in (Outcome(0, 18.5, "mean_return", 1000, 1.0), Outcome(3, last_line="out of luck")):
        outcome.write(run.outcome, found)
        assert outcome.read(run.outcome) == found


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", "null", "{}", "[" * 3000),
        *(f'{{"exit_code": {value}}}' for value in ('"0"', "true", "null")),
        *(f'{{"exit_code": 0, "{name}": {{}}}}' for name in (*outcome._KINDS, "other")),
        '{"exit_code": 0, "env_frames": 1.5}',
    ],
)
def test_an_outcome_that_no_sweep_writes_is_refused(make_run, text):
    run = make_run()
    run.outcome.write_text(text)
    with pytest.raises(ValueError, match=r"seed_1\.json cannot be read .*; delete it to repeat the run"):
        outcome.read(run.outcome)
