"""Vector environments: what they return is what single environments return, as far as they can."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from seed_rl.environments.base import EnvironmentConfig, Info, Suite
from seed_rl.environments.failures import EnvironmentFailedError, FailureConfig
from seed_rl.environments.making import make_batch
from seed_rl.environments.suites.classic import SUITE, GymConfig
from seed_rl.environments.vector import OneOf, VectorEnvironment
from tests.environments.contract import played, random_actions
from tests.environments.limited import Limited
from tests.environments.odd import raises, with_part

NEXT, SAME, DISABLED = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED
SEEDS = [3, 4, 5]
GONE = raises(OSError("no device"))
LIMITED = "tests.environments.limited:Limited-v0"


def _of(game, vectorization, **settings):
    return make_batch(SUITE, GymConfig(game=game, vectorization=vectorization, **settings), SEEDS)


def _vector(make, *tolerance):
    """A batch of the vector environment that `make(seeds)` makes."""
    suite = Suite(EnvironmentConfig, lambda config, seed: None, lambda config, seeds: make(seeds))
    return VectorEnvironment(suite, EnvironmentConfig(), SEEDS, *tolerance)


GAMES = [
    ("CartPole-v1", "{}", None),
    ("Pendulum-v1", "{}", 7),
    *((LIMITED, f'{{"length": {length}}}', None) for length in range(1, 6)),
    (LIMITED, '{"length": 2, "terminates": true}', None),
]


@pytest.mark.parametrize(("game", "kwargs", "limit"), GAMES)
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_vectors_of_single_environments_return_what_single_ones_do(game, kwargs, limit, vectorization):
    settings = {"env_kwargs": kwargs, "max_episode_frames": limit}
    single, vector = (played(_of(game, way, **settings), 60, SEEDS) for way in ("none", vectorization))
    np.testing.assert_equal(vector, single)
    assert single[1]  # Episodes have ended.


class Native(VectorEnv):
    """A vector environment in one of the modes, with Limited environments that it steps."""

    def __init__(self, mode, takes_mask, num_envs=3, **kwargs):
        self.metadata = {"autoreset_mode": mode, "reset_mask": takes_mask}
        self._sync = SyncVectorEnv([lambda: Limited(**kwargs)] * num_envs, autoreset_mode=mode)
        self.num_envs = num_envs
        self.single_observation_space = self._sync.single_observation_space
        self.single_action_space = self._sync.single_action_space
        self.observation_space, self.action_space = self._sync.observation_space, self._sync.action_space

    def reset(self, *, seed=None, options=None):
        assert options is None or self.metadata["reset_mask"] or self.metadata["autoreset_mode"] is DISABLED
        return self._sync.reset(seed=seed, options=options)

    def step(self, actions):
        return self._sync.step(actions)


def _native_records(mode, takes_mask, **kwargs):
    return played(_vector(lambda seeds: Native(mode, takes_mask, len(seeds), **kwargs)), 60, SEEDS)


def _shape(records, env=0):
    """Trajectory of one environment: (agent step, reward, done, truncated) at each step."""
    return [(int(r[3][env, 1]), bool(r[1][env]), bool(r[2][env])) for r in records]


EPISODE = [(0, True, False), (1, False, False), (2, False, False)]


@pytest.mark.parametrize(
    ("mode", "takes_mask", "terminates", "expected"),
    [
        (NEXT, True, False, [*EPISODE, (3, False, True)]),
        (NEXT, True, True, EPISODE),
        (NEXT, False, False, [*EPISODE, (3, False, True)]),
        (NEXT, False, True, [*EPISODE, (3, False, False)]),  # The last observation is shown.
        (SAME, True, False, [*EPISODE, (3, False, True)]),
        (SAME, True, True, EPISODE),
        (SAME, False, True, EPISODE),
        (DISABLED, True, False, [*EPISODE, (3, False, True)]),
        (DISABLED, True, True, EPISODE),
    ],
)
def test_ends_of_episodes_in_each_autoreset_mode(mode, takes_mask, terminates, expected):
    records, reported = _native_records(mode, takes_mask, terminates=terminates)
    shown = _shape(records)
    for start in range(0, len(shown) - len(expected), len(expected)):
        assert shown[start : start + len(expected)] == expected
    assert {(agent_steps, figures["length"]) for _, _, agent_steps, figures in reported} == {(3, 3.0)}
    assert all(not (record[1] & record[2]).any() for record in records)


def test_without_a_mask_the_same_step_mode_hides_the_first_observation_after_a_truncation():
    records, reported = _native_records(SAME, False)
    after = [(1, True, False), (2, False, False), (3, False, True)]
    assert _shape(records)[:10] == [*EPISODE, (3, False, True), *after, *after]
    assert records[4][0][0] == 0  # The reward of an action that nobody saw.
    assert {agent_steps for _, _, agent_steps, _ in reported} == {3, 2}


def test_a_native_vector_environment_plays_the_same_cartpole():
    single, native = _of("CartPole-v1", "none"), _of("CartPole-v1", "native")
    output = native.reset(SEEDS)
    single.reset(SEEDS)
    for index, watched in enumerate(single._watched):
        watched.env.unwrapped.state = np.array(native._vector.env.unwrapped.state[:, index])
    for step in random_actions(native.spec.action, 60).reshape(20, 3):
        mine, _ = single.step(step)
        output, _ = native.step(step)
        if mine.done.any():
            break
        np.testing.assert_allclose(output.observation, mine.observation, atol=1e-5)
        np.testing.assert_array_equal(output.reward, mine.reward)
    assert output.truncated.sum() == 0


class Faulty(Native):
    """Has `fault` in its fourth step."""

    def __init__(self, fault=GONE, length=9, steps=0):
        super().__init__(NEXT, False, length=length)
        self.fault, self.steps = fault, steps

    def step(self, actions):
        self.steps += 1
        returned = super().step(actions)
        return self.fault(returned) if self.steps == 4 else returned


def _observing(change):
    return lambda honest: (change(honest[0]), *honest[1:])


FAULTS = {
    "raises": (GONE, "no device"),
    "a nan": (with_part(1, np.full(3, np.nan)), "the reward nan for environment 0"),
    "rewards of two": (with_part(1, np.ones(2)), "for the reward, not 3 of numbers"),
    "ends as floats": (with_part(2, np.zeros(3)), "for terminated, not 3 of bools"),
    "another space": (
        _observing(lambda seen: {**seen, "episode": np.zeros((3, 5), np.float32)}),
        "its observation space says",
    ),
    "two observations": (_observing(lambda seen: {k: v[:2] for k, v in seen.items()}), "of 3 environments"),
    "no observation": (with_part(0, {}), "no array for the observation"),
    "no info": (with_part(4, None), "which is no dict"),
    "four parts": (lambda honest: honest[:4], "not (observation, reward"),
    "a reset that nobody asked for": (
        lambda honest: (*honest[:3], honest[3] | True, {"final_obs": honest[0]}),
        "resets at once, but its autoreset mode is NEXT_STEP",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_vector_environment_that_fails_is_replaced_and_its_episodes_are_void(fault, caplog):
    made = []

    def make(seeds):
        made.append(Faulty(FAULTS[fault][0], steps=10 * len(made)))
        return made[-1]

    batch = _vector(make, FailureConfig(), 6)
    batch.reset(SEEDS)
    actions = np.zeros((3, 2), np.int32)
    for _ in range(3):
        good, _ = batch.step(actions)
    last = good.observation["episode"].copy()
    output, infos = batch.step(actions)
    assert infos == [{Info.EPISODE_IS_VOID: True}] * 3
    assert output.truncated.all() and not output.done.any() and not output.reward.any()
    np.testing.assert_array_equal(output.observation["episode"], last)
    assert "Environments 6 to 8 failed" in caplog.text
    assert FAULTS[fault][1] in caplog.text
    output, infos = batch.step(actions)
    assert output.done.all() and not output.truncated.any() and infos == [{}] * 3
    assert len(made) == 2
    batch.close()


def test_a_failure_in_the_step_that_resets_counts_no_episode():
    batch = _vector(lambda seeds: Faulty(length=3), FailureConfig(max_environment_failures=100))
    records, reported = played(batch, 30, SEEDS)
    assert {agent_steps for _, _, agent_steps, _ in reported} == {3}
    assert _shape(records)[3:6] == [(3, False, True), (3, False, True), (0, True, False)]


def test_a_vector_environment_that_fails_too_often_ends_with_a_sentence():
    with pytest.raises(EnvironmentFailedError, match=r"Environments 0 to 2 failed .* OSError: no device"):
        played(_vector(lambda seeds: Faulty()), 60, SEEDS)


def _without_mode(env):
    env.metadata = {}
    return env


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda seeds: Native(NEXT, False, 5), "has 5 environments and the group 3"),
        (lambda seeds: _without_mode(Native(NEXT, False)), "does not say when it resets"),
        (lambda seeds: Limited(), "must be a gymnasium.vector.VectorEnv, not Limited"),
    ],
)
def test_what_cannot_be_a_vector_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        _vector(make)


def test_staggered_starts_of_vectors_are_not_reported():
    batch = _of("Pendulum-v1", "sync", staggered_start=True, max_episode_frames=9)
    _, reported = played(batch, 40, SEEDS)
    assert {agent_steps for _, _, agent_steps, _ in reported} == {9}


@pytest.mark.parametrize("mode", [NEXT, SAME, DISABLED])
def test_one_environment_of_a_vector_is_a_gymnasium_environment(mode):
    env = OneOf(Native(mode, False, 2))
    single = Limited()

    def seen(observation):
        return observation["start"], observation["episode"][1], observation["flags"].tolist()

    for seed in (7, 8):
        assert seen(env.reset(seed=seed)[0]) == seen(single.reset(seed=seed)[0])
        for action in (np.array([0, 1]), np.array([1, 2]), np.array([1, 0])):
            observation, *ends, info = env.step(action)
            expected, *expected_ends, expected_info = single.step(action)
            assert (seen(observation), ends, info) == (seen(expected), expected_ends, expected_info)
