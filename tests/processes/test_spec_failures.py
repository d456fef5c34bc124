"""The learner makes an environment to learn its spaces. Whatever that raises is one sentence."""

import re

import pytest

from tests.evaluation import fragile

FAULTS = {
    "make raise": r"OSError: the engine\\nis gone",
    "make value": r"ValueError: two\\nlines",
    "make exit": "SystemExit: 3",
    "make interrupt": "InterruptedByItselfError",
    "reset raise": r"OSError: the engine\\nis gone",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_environment_that_cannot_be_made_ends_a_run_with_one_sentence(house, monkeypatch, fault):
    monkeypatch.setenv(fragile.FAULT, fault)
    game = f"--game={fragile.GAME}"
    learner = house.learner("--environment=gym", game)
    run = house.start("local_main", "gym", "vtrace", "1", "2", game, f"--logdir={house.path}/other")
    what = rf"Environment 0 failed: make\(\) raised {FAULTS[fault]}; fix the environment\."
    for process in (learner, run):
        assert process.end() == 2, process.output
        assert "Traceback" not in process.output
        lines = process.output.splitlines()
        found = [line for line in lines if re.fullmatch(f"seed_rl: error: {what}", line)]
        assert len(found) == 1, process.output
