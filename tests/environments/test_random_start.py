"""Random actions before the first observation."""

import gymnasium
import numpy as np
import pytest

from seed_rl.actor.statistics import EpisodeStatistics
from seed_rl.environments import registry
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.batched import make_batched
from seed_rl.environments.random_start import RandomStart

MOST, LENGTH = 12, 5


class Counter(gymnasium.Env):
    """Shows the agent steps of its episode; lives of `LENGTH` steps, two of which are a game."""

    action_space = gymnasium.spaces.Discrete(4)
    observation_space = gymnasium.spaces.Box(0, 1000, (2,), np.float32)

    def __init__(self):
        self.actions, self.episodes, self._life = [], 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episodes += 1
        self._time = 0
        return self._observation(), {}

    def step(self, action):
        self.actions.append(int(action))
        self._time += 1
        ended = self._time == LENGTH
        info = {}
        if ended:
            self._life += 1
            info["episode_continues"] = self._life % 2 == 1
        return self._observation(), 1.0, ended, False, info

    def _observation(self):
        return np.array([self._time, len(self.actions)], np.float32)


def started(seed, most=MOST):
    env = RandomStart(Counter(), most, seed)
    observation, _ = env.reset(seed=seed)
    return env, observation


def test_the_number_of_random_steps_is_uniform_and_follows_from_the_seed():
    counts = [len(started(seed)[0].unwrapped.actions) for seed in range(400)]
    assert set(counts) == set(range(MOST + 1))
    assert max(np.bincount(counts)) < 60  # 31 on average.
    assert counts[:20] == [len(started(seed)[0].unwrapped.actions) for seed in range(20)]


def test_the_actions_are_random_and_episodes_that_end_meanwhile_are_followed_by_others():
    for seed in range(50):
        env, observation = started(seed)
        taken = len(env.unwrapped.actions)
        assert observation.tolist() == [taken % LENGTH, taken]
        assert env.unwrapped.episodes == 1 + taken // LENGTH
    actions = np.concatenate([started(seed)[0].unwrapped.actions for seed in range(50)]).astype(int)
    assert min(np.bincount(actions, minlength=4)) > 0.2 * len(actions)


def test_only_the_first_reset_plays_on():
    env, _ = started(seed=3)
    taken = len(env.unwrapped.actions)
    assert taken > 0
    for _ in range(3):
        assert env.reset()[0].tolist() == [0, taken]


def test_the_first_episode_counts_for_nothing_and_the_next_one_does():
    """Here an episode ends with every second life."""
    env, _ = started(seed=0, most=1)
    voids = []
    while len(voids) < 5:
        _, _, terminated, _, info = env.step(0)
        if terminated:
            voids.append((info.get("episode_is_void", False), info["episode_continues"]))
            env.reset()
    assert voids == [(True, True), (True, False), (False, True), (False, False), (False, True)]


def test_a_batch_reports_only_whole_episodes():
    suite = Suite(EnvironmentConfig, lambda config, seed, render_mode=None: Counter())
    batch = make_batched(suite, EnvironmentConfig(random_start_steps=4), seeds=range(6))
    assert batch.reset(seeds=list(range(6))).done.all()
    statistics, lengths = EpisodeStatistics(6), []
    for _ in range(60):
        output, infos = batch.step(np.zeros(6, np.int64))
        lengths += [episode.agent_steps for episode in statistics.update(output, infos)]
    assert set(lengths) == {2 * LENGTH}
    assert 6 * 3 < len(lengths) < 6 * 6


def test_without_the_option_nothing_is_wrapped():
    made = []

    def make(config, seed, render_mode=None):
        made.append(Counter())
        return made[-1]

    batch = make_batched(Suite(EnvironmentConfig, make), EnvironmentConfig(), seeds=[0])
    batch.reset(seeds=[0])
    assert [env.actions for env in made] == [[]]


@pytest.mark.parametrize("name", registry.names())
def test_evaluation_starts_as_usual(name):
    config = registry.suite(name).config_class(random_start_steps=7)
    assert config.for_evaluation().random_start_steps == 0


def test_a_negative_number_is_refused():
    with pytest.raises(ValueError, match="--random_start_steps=-1 is too low"):
        EnvironmentConfig(random_start_steps=-1)
