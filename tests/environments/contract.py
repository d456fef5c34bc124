"""The contract that every environment must fulfil: the tests of a suite inherit `EnvironmentContract`."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest

from seed_rl.actor.group import EpisodeStatistics
from seed_rl.environments.actions import action_decoder, action_spec
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.batched import BatchedEnvironment
from seed_rl.environments.observations import ObservationLeaf, hash_words, observation_leaves
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.types import ArraySpec, flatten_like, flatten_spec


def random_actions(spec: ArraySpec, count: int, seed: int = 0) -> np.ndarray:
    """Random wire actions `[count, *spec.shape]`."""
    rng = np.random.default_rng(seed)
    if spec.is_discrete:
        high = np.reshape(spec.num_values, spec.shape)
        return rng.integers(high, size=(count, *spec.shape)).astype(spec.dtype)
    low = -1.0 if spec.minimum is None else np.reshape(spec.minimum, spec.shape)
    high = 1.0 if spec.maximum is None else np.reshape(spec.maximum, spec.shape)
    return rng.uniform(low, high, size=(count, *spec.shape)).astype(spec.dtype)


def suite_of(*envs: gymnasium.Env) -> Suite:
    """A suite whose environment with seed n is the n-th of these, from 0."""
    return Suite(EnvironmentConfig, lambda config, seed: envs[seed])


def expected_outputs(
    env: gymnasium.Env, actions: np.ndarray
) -> Iterator[tuple[float, bool, bool, list[np.ndarray]]]:
    """(reward, done, truncated, observation leaves) of one environment, as seed_rl.types defines them."""
    leaves = observation_leaves(env.observation_space)

    def arrays(observation: Any) -> list[np.ndarray]:
        return [_on_the_wire(np.array(_at(observation, leaf.path)), leaf) for leaf in leaves]

    yield 0.0, True, False, arrays(env.reset()[0])
    truncated = False
    for action in action_decoder(env.action_space)(actions):
        if truncated:
            truncated = False
            yield 0.0, True, False, arrays(env.reset()[0])
            continue
        observation, reward, terminated, truncated, _ = env.step(action)
        if terminated:
            truncated = False
            observation, _ = env.reset()
        yield float(reward), bool(terminated), bool(truncated), arrays(observation)


def played(batch: BatchedEnvironment, agent_steps: int, seeds: Sequence[int] | None) -> tuple[list, list]:
    """Copies of what random play returns, and what an actor reports of its episodes; closes the batch.

    An episode is (environment, return, agent steps, own figures).
    """
    with contextlib.closing(batch):
        return _played(batch, agent_steps, seeds)


def _played(batch: BatchedEnvironment, agent_steps: int, seeds: Sequence[int] | None) -> tuple[list, list]:
    statistics, records, reported = EpisodeStatistics(batch.num_envs), [], []

    def keep(output):
        leaves = flatten_like(batch.spec.observation, output.observation)
        records.append([a.copy() for a in (output.reward, output.done, output.truncated, *leaves)])

    keep(batch.reset(seeds))
    actions = random_actions(batch.spec.action, agent_steps * batch.num_envs)
    for step in actions.reshape(agent_steps, batch.num_envs, *batch.spec.action.shape):
        output, infos = batch.step(step)
        keep(output)
        reported += statistics.update(output, infos)
    return records, [(e.env, e.episode_return, e.agent_steps, dict(e.figures)) for e in reported]


class EnvironmentContract:
    """Contract of a suite with any settings and game. Set `suite`, `config` and others as needed."""

    suite: ClassVar[Suite]
    config: ClassVar[EnvironmentConfig]
    agent_steps: ClassVar[int] = 300
    episodes_end: ClassVar[bool] = True  # within `agent_steps` of random play

    @pytest.fixture
    def make_env(self):
        with contextlib.ExitStack() as stack:
            yield lambda seed=0: stack.enter_context(contextlib.closing(self.suite.make(self.config, seed)))

    @pytest.fixture
    def make_batch(self):
        with contextlib.ExitStack() as stack:
            yield lambda seeds: stack.enter_context(
                contextlib.closing(SingleEnvironments(self.suite, self.config, seeds))
            )

    def play(self, batch: SingleEnvironments, seeds: list[int] | None = None) -> list[list[np.ndarray]]:
        """Copies of everything that a random game of `agent_steps` returns."""
        return _played(batch, self.agent_steps, seeds)[0]

    def test_outputs_match_the_spec_and_stay_finite(self, make_batch):
        batch = make_batch([0, 1])
        leaves = [spec for _, spec in flatten_spec(batch.spec.observation)]
        for reward, done, truncated, *arrays in self.play(batch):
            assert (reward.dtype, done.dtype, truncated.dtype) == (np.float32, bool, bool)
            assert reward.shape == done.shape == truncated.shape == (2,)
            assert np.isfinite(reward).all()
            assert not (done & truncated).any()
            for spec, array in zip(leaves, arrays, strict=True):
                assert array.shape == (2, *spec.shape)
                assert array.dtype == spec.dtype
                assert np.isfinite(array).all()

    def test_observations_lie_in_their_space_and_are_not_overwritten(self, make_env):
        env = make_env()
        leaves = observation_leaves(env.observation_space)
        first, _ = env.reset()
        copies = [np.array(_at(first, leaf.path)) for leaf in leaves]
        assert env.observation_space.contains(first)
        actions = random_actions(action_spec(env.action_space), 10)
        for action in action_decoder(env.action_space)(actions):
            observation, _, terminated, truncated, _ = env.step(action)
            assert env.observation_space.contains(observation)
            for leaf, copy in zip(leaves, copies, strict=True):
                np.testing.assert_array_equal(_at(first, leaf.path), copy)
            if terminated or truncated:
                first, _ = env.reset()
                copies = [np.array(_at(first, leaf.path)) for leaf in leaves]

    def test_same_seeds_same_trajectory(self, make_batch):
        batches = [make_batch([3, 4]), make_batch([3, 4])]
        made = [self.play(batch) for batch in batches]
        np.testing.assert_equal(made[0], made[1])
        reseeded = [self.play(batch, seeds=[7, 8]) for batch in batches]
        np.testing.assert_equal(reseeded[0], reseeded[1])

    def test_other_seeds_other_trajectories(self, make_batch):
        batch = make_batch([0, 1, 2, 3])
        observations = [np.stack(leaf) for leaf in list(zip(*self.play(batch), strict=True))[3:]]
        assert any((leaf != leaf[:, :1]).any() for leaf in observations)

    def test_episode_ends_are_told_as_types_say(self, make_env, make_batch):
        batch = make_batch([5])
        actions = random_actions(batch.spec.action, self.agent_steps)
        expected = expected_outputs(make_env(5), actions)
        output, ends = batch.reset(), 0
        for action in [*actions, None]:
            reward, done, truncated, leaves = next(expected)
            assert output.reward[0] == np.float32(reward)
            assert (output.done[0], output.truncated[0]) == (done, truncated)
            for actual, wanted in zip(
                flatten_like(batch.spec.observation, output.observation), leaves, strict=True
            ):
                np.testing.assert_array_equal(actual[0], wanted.astype(actual.dtype))
            ends += done or truncated
            if action is not None:
                output, _ = batch.step(action[None])
        assert (ends > 1) == self.episodes_end  # the first reset counts

    def test_close_twice(self, make_env, make_batch):
        for closable in (make_env(), make_batch([0, 1])):
            closable.reset()
            closable.close()
            assert closable.close() is None


def fulfils(suite: Suite, config: EnvironmentConfig, **others: Any) -> type[EnvironmentContract]:
    """The tests of the contract for a suite with these settings; `others` are attributes of the class."""
    return type("Contract", (EnvironmentContract,), {"suite": suite, "config": config, **others})


def _on_the_wire(value: np.ndarray, leaf: ObservationLeaf) -> np.ndarray:
    if leaf.spec.bits is not None:
        return np.packbits(value)
    if leaf.is_text:
        return hash_words(str(value))
    return value if leaf.start is None else value - leaf.start


def _at(observation: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        observation = observation[key]
    return observation
