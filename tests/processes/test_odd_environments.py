"""Whole runs with odd environments: what fails is told and replaced, and the figures are right."""

import pytest

from tests.environments.odd import KIND, LENGTH

pytestmark = pytest.mark.slow

GAME = ("--environment=gym", "--game=tests.environments.odd:Odd-v0")

# (kind, what the actor says).
KINDS = {
    "our_keys": "",
    "integer_outside": "step() returned 7 for the observation, but its observation space says 0 to 5",
    "infinite": "step() returned inf for the observation at [0], but it must be finite",
    "too_large": "step() returned 1e+39 for the observation at [0], but it must be finite",
    "large_reward": "step() returned the reward 1e+39, but it must be finite",
    "no_info": "reset() returned array([",
    "sleeps": "step() did not return within 1 s (--env_step_timeout_secs)",
}


@pytest.mark.parametrize(("kind", "clause"), KINDS.items(), ids=KINDS)
def test_a_run_continues_with_the_return_of_honest_environments(house, monkeypatch, kind, clause):
    monkeypatch.setenv(KIND, kind)
    learner = house.learner(*GAME, "--num_envs=4")
    actor = house.actor(*GAME, "--env_step_timeout_secs=1")
    found = house.wait_for_metrics(lambda line: line["episodes"] >= 40, learner)
    assert found["mean_return"] == found["mean_episode_agent_steps"] == LENGTH
    assert clause in actor.output and ("replacing it (1 of 3)" in actor.output) == bool(clause)
    assert actor.running and "Traceback" not in actor.output


def test_native_code_that_hangs_ends_the_actor_which_says_where(house, monkeypatch):
    monkeypatch.setenv(KIND, "locks")
    learner = house.learner(*GAME, "--num_envs=4")
    actor = house.actor(*GAME, "--env_step_timeout_secs=0.5")
    assert actor.end() == 1
    assert "in locks" in actor.output
    assert learner.running


@pytest.mark.parametrize("seed", [0, 12345, 2**32, 2**63])
def test_every_seed_suits_every_random_generator(house, monkeypatch, seed):
    monkeypatch.setenv(KIND, "old_generator")
    learner = house.learner(*GAME, "--num_envs=4", f"--seed={seed}", "--total_environment_frames=400")
    actor = house.actor(*GAME)
    assert (learner.end(), actor.end()) == (0, 0), learner.output + actor.output


@pytest.mark.parametrize(
    ("module", "flags"),
    [
        ("learner_main", ("--environment=catch", "--agent=vtrace")),
        ("evaluate", ("--logdir=run",)),
    ],
)
@pytest.mark.parametrize("seed", [-1, 2**63 + 1])
def test_other_seeds_are_refused_in_one_sentence(house, module, flags, seed):
    process = house.start(module, *flags, f"--seed={seed}")
    assert process.end() == 2
    assert process.last_line.startswith(f"seed_rl: error: --seed={seed} is too ")
