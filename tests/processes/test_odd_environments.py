"""Whole runs with odd environments: failures are logged and replaced, and the figures are right."""

import pytest

from tests.environments.odd import KIND, LENGTH

pytestmark = pytest.mark.slow

GAME = ("--environment=gym", "--game=tests.environments.odd:Odd-v0")

# (kind, text of the actor's message).
KINDS = {
    "our_keys": "",
    "integer_outside": "step() returned 7 for the observation, but its observation space says 0 to 5",
    "sleeps": "step() did not return within 1 s (--env_step_timeout_secs)",
}


@pytest.mark.parametrize(("kind", "clause"), KINDS.items(), ids=KINDS)
def test_a_run_continues_with_the_return_of_honest_environments(house, monkeypatch, kind, clause):
    monkeypatch.setenv(KIND, kind)
    start = () if clause else ("--random_start_steps=50",)  # Its episodes would be shorter.
    learner = house.learner(*GAME, *start, "--num_envs=4")
    actor = house.actor(*GAME, *start, "--env_step_timeout_secs=1")
    found = house.wait_for_metrics(lambda line: line["episodes"] >= 40, learner)
    assert found["mean_return"] == found["mean_episode_agent_steps"] == LENGTH
    assert clause in actor.output and ("replacing it (1 of 3)" in actor.output) == bool(clause)
    assert actor.running and "\nTraceback" not in actor.output  # Those of environments are indented.


def test_native_code_that_hangs_ends_the_actor_which_says_where(house, monkeypatch):
    monkeypatch.setenv(KIND, "locks")
    learner = house.learner(*GAME, "--num_envs=4")
    actor = house.actor(*GAME, "--env_step_timeout_secs=0.5")
    assert actor.end() == 1
    assert "in locks" in actor.output
    assert learner.running


@pytest.mark.parametrize("seed", [0, 2**63])
def test_every_seed_suits_every_random_generator(house, monkeypatch, seed):
    monkeypatch.setenv(KIND, "old_generator")
    learner = house.learner(*GAME, "--num_envs=4", f"--seed={seed}", "--total_environment_frames=400")
    actor = house.actor(*GAME)
    assert (learner.end(), actor.end()) == (0, 0), learner.output + actor.output
