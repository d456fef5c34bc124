"""Batched stepping and random starts, with environments whose ends and failures are scripted."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.environments.actions import random_actions
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.suites import atari, catch, classic, dmlab
from tests.environments.contract import suite_of
from tests.environments.odd import Odd, episodes_of, odd_batch, raises

GO, TERMINATE, TRUNCATE, BOTH = 0, 1, 2, 3


class ScriptedEnv(gymnasium.Env):
    """Actions decide how steps end. Observes [episode, agent step in it]; the reward is the latter."""

    action_space = spaces.Discrete(4)
    observation_space = spaces.Box(0, 100, (2,), np.float64)
    episode = closed = 0

    def reset(self, *, seed=None, options=None):
        self.episode, self.agent_step = self.episode + 1, 0
        return np.array([self.episode, 0.0]), {"reset": True}

    def step(self, action):
        self.agent_step += 1
        observation = np.array([self.episode, self.agent_step], np.float64)
        info = {"steps": self.agent_step}
        return observation, self.agent_step, action in (TERMINATE, BOTH), action in (TRUNCATE, BOTH), info

    def close(self):
        self.closed += 1


def _batch(*envs):
    return SingleEnvironments(suite_of(*envs), EnvironmentConfig(), range(len(envs)))


def test_episodes_end_at_once_or_after_their_last_observation_and_a_reset_forgets_a_truncation():
    batch, rows = _batch(ScriptedEnv()), []

    def keep(output, infos):
        reward, done, truncated, (observation,) = output
        rows.append((observation.tolist(), reward.item(), done.item(), truncated.item(), *infos))

    for action in (None, GO, TERMINATE, GO, TRUNCATE, TERMINATE, TRUNCATE, None, GO):
        keep(*((batch.reset(), [None]) if action is None else batch.step(np.array([action], np.int32))))
    assert rows == [
        ([1, 0], 0, True, False, None),
        ([1, 1], 1, False, False, {"steps": 1}),
        ([2, 0], 2, True, False, {"steps": 2}),
        ([2, 1], 1, False, False, {"steps": 1}),
        ([2, 2], 2, False, True, {"steps": 2}),
        ([3, 0], 0, True, False, {}),  # What answered the truncated step is never executed.
        ([3, 1], 1, False, True, {"steps": 1}),
        ([4, 0], 0, True, False, None),
        ([4, 1], 1, False, False, {"steps": 1}),
    ]


def test_many_environments_step_as_each_would_alone():
    """Steps in which nothing ends are written together, others one by one; nothing may show which."""
    together, alone = _batch(*[ScriptedEnv() for _ in range(3)]), [_batch(ScriptedEnv()) for _ in range(3)]
    together.reset()
    for batch in alone:
        batch.reset()
    for actions in np.random.default_rng(0).choice(4, size=(200, 3), p=[0.85, 0.05, 0.05, 0.05]):
        output, infos = together.step(actions)
        expected = [batch.step(actions[i : i + 1]) for i, batch in enumerate(alone)]
        for arrays in zip(output, *(one for one, _ in expected), strict=True):
            np.testing.assert_array_equal(arrays[0], np.concatenate(arrays[1:]))
        assert infos == [one for _, (one,) in expected]


@pytest.mark.parametrize(
    "actions", [np.zeros(1, np.int32), np.zeros((2, 1), np.int32), np.zeros(2, np.float32), np.zeros(2, bool)]
)
def test_wrong_actions_are_refused(actions):
    batch = _batch(ScriptedEnv(), ScriptedEnv())
    with pytest.raises(RuntimeError, match="reset"):
        batch.step(np.zeros(2, np.int32))
    batch.reset()
    with pytest.raises(ValueError, match=r"int32\[2\], not "):
        batch.step(actions)


def test_environments_of_different_spaces_are_refused():
    with pytest.raises(ValueError, match=r"Environment 1 has .*equal spaces"):
        _batch(ScriptedEnv(), Odd())


def test_one_is_made_per_seed():
    made, config = [], EnvironmentConfig(num_action_repeats=2)
    suite = Suite(EnvironmentConfig, lambda config, seed: made.append((config, seed)) or ScriptedEnv())
    batch = SingleEnvironments(suite, config, [5, 6, 7])
    assert made == [(config, 5), (config, 6), (config, 7)]
    assert (batch.num_envs, batch.spec.num_action_repeats) == (3, 2)
    with pytest.raises(ValueError, match="--env_batch_size"):
        SingleEnvironments(suite, config, [])


def test_what_was_made_is_closed_when_one_fails():
    made = [ScriptedEnv(), ScriptedEnv()]

    def make(config, seed):
        if seed == 2:
            raise ValueError("no such game")
        return made[seed]

    with pytest.raises(ValueError, match="no such game"):
        SingleEnvironments(Suite(EnvironmentConfig, make), EnvironmentConfig(), [0, 1, 2])
    assert [env.closed for env in made] == [1, 1]


MOST = 30
SEEDS = list(range(20))
BUSIEST = max(SEEDS, key=lambda seed: len(random_actions(Odd.action_space, seed, MOST)))


def make(length=1000, truncates=False, failing=None):
    """A batch and its environments, the one with the number `failing` with a fault."""
    kind = {"length": length, "truncates": truncates}
    fault = {**kind, "step": raises(RuntimeError("the engine is gone"))}
    kinds = [fault if seed == failing else kind for seed in SEEDS]
    return odd_batch(*kinds, others=kind, num_envs=len(SEEDS), first_env=0)


def played(made):
    return [len(env.actions) for env in made]


def test_each_environment_takes_a_random_number_of_random_actions():
    batch, made = make()
    output = batch.reset(SEEDS, MOST)
    counts = played(made)
    assert min(counts) < 5 and max(counts) > 25 and max(counts) <= MOST and len(set(counts)) > 10
    np.testing.assert_array_equal(output.observation[:, 0], counts)
    assert output.done.all() and not output.truncated.any() and not output.reward.any()
    assert {action for env in made for action in env.actions} == {0, 1}
    (again, made_again), (other, made_other) = make(), make()
    again.reset(SEEDS, MOST)
    other.reset([seed + 100 for seed in SEEDS], MOST)
    assert [env.actions for env in made] == [env.actions for env in made_again]  # The seed alone decides.
    assert played(made) != played(made_other)
    with pytest.raises(ValueError, match=r"^Random starts need a seed per environment"):
        batch.reset(None, MOST)


@pytest.mark.parametrize("truncates", [False, True])
def test_only_the_episode_with_random_actions_is_void(truncates):
    length = 8
    batch, made = make(length, truncates)
    output = batch.reset(SEEDS, MOST)
    before = output.observation[:, 0].astype(int).tolist()
    assert any(count > length for count in played(made))  # Episodes have ended on the way.
    assert [count % length for count in played(made)] == before
    assert output.done.all() and not output.truncated.any() and not output.reward.any()
    # The last random action may have ended an episode: then the next one is whole, and counts.
    expected = [(env, length, length) for env, count in enumerate(before) for _ in range(1 if count else 2)]
    assert sorted(episodes_of(batch, 2 * (length + truncates))) == expected


def test_an_environment_that_fails_is_replaced_by_one_without_random_actions(caplog):
    batch, made = make(length=8, failing=BUSIEST)
    output = batch.reset(SEEDS, MOST)
    assert played(made)[BUSIEST] == 3 and len(made) == len(SEEDS) + 1 and not made[-1].actions
    assert not output.observation[BUSIEST].any()
    assert output.done.all() and not output.truncated.any() and not output.reward.any()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"Environment {BUSIEST} failed in episode 1 at agent step 3: step() raised ")
    assert line.endswith("replacing it (1 of 3).")
    assert (BUSIEST, 8, 8) in episodes_of(batch, 8)  # It was begun by no random action.


@pytest.mark.parametrize(
    "config", [atari.AtariConfig, catch.CatchConfig, classic.GymConfig, dmlab.DmlabConfig]
)
def test_evaluation_takes_none(config):
    assert config(random_start_steps=MOST).for_evaluation().random_start_steps == 0


def test_random_actions_of_a_box_with_huge_bounds_are_those_of_one_without():
    huge = spaces.Box(np.array([-1.7e308, 100, -1]), np.array([1.7e308, 1e308, 1]), dtype=np.float64)
    unbounded = spaces.Box(np.array([-np.inf, 100, -1]), np.array([np.inf, np.inf, 1]), dtype=np.float64)
    drawn = random_actions(huge, BUSIEST, MOST)
    np.testing.assert_array_equal(drawn, random_actions(unbounded, BUSIEST, MOST))
    assert drawn and all(huge.contains(action) for action in drawn)
