"""Gain of larger batches: from outcomes that are made up, and once from real runs."""

import json

import pytest

from benchmarks import batch_size, learning
from benchmarks.batch_size import BatchSizeConfig, Outcome, largest_that_pays
from benchmarks.learning_runs import FailedRun, Progress
from seed_rl.flags.errors import UsageError
from tests.benchmarks.running import result


def run(frames, updates=10, seconds=60.0):
    return Progress(1.0, 1.0, 1000, 100.0, frames, seconds if frames else None, updates if frames else None)


def outcome(frames, reached=1, runs=1):
    return Outcome(runs, reached, frames, 10, 1.0)


def test_a_batch_pays_while_all_up_to_it_do():
    outcomes = {
        (1, "none"): outcome(100),
        **{(2, rule): outcome(110) for rule in ("none", "sqrt", "linear")},
        (4, "none"): outcome(130),
        (4, "sqrt"): outcome(120),
        (4, "linear"): outcome(120, reached=1, runs=2),
        (8, "none"): outcome(100),
        (8, "sqrt"): outcome(125),
        (8, "linear"): outcome(None, reached=0),
    }
    assert largest_that_pays(outcomes, 1.25) == {"none": 2, "sqrt": 8, "linear": 2}
    assert largest_that_pays(outcomes, 1.0) == {"none": 1, "sqrt": 1, "linear": 1}
    outcomes[1, "none"] = outcome(None, reached=0)
    assert largest_that_pays(outcomes, 1.25) == {"none": None, "sqrt": None, "linear": None}


def test_flags_override_the_preset_but_not_the_batch():
    flags = ["--learning_rate=0.25", "--batch_size=6", "--log_period_secs=3"]
    settings = batch_size._settings(BatchSizeConfig(factors="2", rules="linear"), "catch/vtrace", flags)
    assert [(s.case.batch_size, s.case.learning_rate) for s in settings] == [(6, 0.25), (12, 0.5)]
    assert all("--log_period_secs=3" in s.case.arguments[-8:] for s in settings)


def made_up(case, seed, logdir, *, mark, stop_at_mark, minutes):
    assert (mark, stop_at_mark) == (0.95, True)
    if case.batch_size == 64:
        raise FailedRun("no memory")
    return run(1000 * case.batch_size if case.batch_size > 16 else 20_000, updates=100)


def test_tables_and_result(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(learning, "train", made_up)
    monkeypatch.chdir(tmp_path)
    args = ["batch_size", "catch/vtrace", "--factors=2,4", "--rules=none,sqrt", "--seeds=1,2"]
    assert batch_size.main([*args, "--tolerance=2"]) == 1  # One setting has failed.
    out, err = capsys.readouterr()
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "catch/vtrace 16 32 none 0.005 2 of 2 20,000 1.00 100 1.00" in rows
    assert "catch/vtrace 32 64 sqrt 0.0071 2 of 2 32,000 1.60 100 1.00" in rows
    assert "catch/vtrace 64 128 none 0.005 0 of 2 - - - -" in rows
    assert "catch/vtrace, batches of 64, sqrt, seed 2, failed: no memory" in err
    found = json.loads(out.splitlines()[-1])
    assert found["largest_that_pays"] == {"catch/vtrace": {"none": 2, "sqrt": 2}}
    assert found["figures"]["catch/vtrace"]["2_sqrt"]["frames"] == 32_000
    assert found["goals"] == {"catch/vtrace": 0.95}

    assert batch_size.main([*args, "--factors=2", "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "| catch/vtrace | 32 | 64 | none | 0.005 | 2 of 2 | 32,000 | 1.60 | 100 | 1.00 |" in lines
    assert "| catch/vtrace | 1x | 1x |" in lines


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--factors=2,much",), "^--factors=2,much is not valid; write it like 1,8,32"),
        (("--rules=cubic",), "^--rules=cubic is not valid; choose from: none, sqrt, linear"),
        (("atari/vtrace/Asterix",), "^atari/vtrace/Asterix has no goal; choose a preset that"),
        (("catch/none",), "^--agent=none is not valid"),
        (("catch/vtrace", "--learning_rat=1"), "did you mean --learning_rate"),
    ],
)
def test_bad_input_is_one_sentence(args, sentence):
    with pytest.raises(UsageError, match=sentence):
        batch_size.main(["batch_size", *args])


@pytest.mark.slow
def test_real_runs_end_at_the_goal_and_are_not_repeated(tmp_path):
    pytest.importorskip("tensorflow", reason="no TensorFlow")
    flags = ["--factors=2", "--rules=sqrt", f"--logdir={tmp_path}"]
    flags += ["--num_actors=1", "--rows=4", "--columns=3"]

    def figures():
        return result("batch_size", "catch/vtrace", *flags)["figures"]["catch/vtrace"]

    found = figures()
    assert found.keys() == {"1_none", "2_sqrt"}
    for outcome in found.values():
        assert outcome["reached"] == 1 and 0 < outcome["frames"] < 400_000 and outcome["updates"] > 0
    settings = json.loads((tmp_path / "catch_vtrace_batch_32_sqrt_seed_1" / "run.json").read_text())[
        "settings"
    ]
    assert settings["learner"]["batch_size"] == 32
    assert settings["learner"]["num_envs"] == 32
    logs = {log: log.stat().st_size for log in tmp_path.glob("*.log")}
    assert len(logs) == 2
    assert figures() == found
    assert {log: log.stat().st_size for log in logs} == logs
