"""Random streams that go into a replay of transitions, and into lists in plain Python to compare it with."""

import dataclasses
from typing import NamedTuple

import numpy as np
import optree

from seed_rl.experience.base import Setup, UnrollConfig
from seed_rl.experience.experience_config import TransitionReplayConfig
from seed_rl.types import AgentOutput, EnvOutput

SHAPE = (3, 2)
CONFIG = TransitionReplayConfig(replay_buffer_size=60, replay_buffer_min_size=1, replay_ratio=1e-9)


def make(
    n=3,
    burn_in=2,
    num_envs=3,
    batch_size=8,
    truncation=0.1,
    path=None,
    num_served=None,
    updates=0,
    **settings,
):
    """A replay, restored from `path` if there is one, and the streams that go into it.

    Where the test names no ratio, nobody waits for anybody.
    """
    unroll = UnrollConfig(n, burn_in, period=1, stagger=False, keeps_state=False)
    setup = Setup(num_envs, unroll, batch_size, num_served=num_served, updates=updates)
    replay = dataclasses.replace(CONFIG, **settings).make(setup)
    if "replay_ratio" not in settings:
        replay._limiter.may_sample = replay._limiter.may_insert = lambda: True
    if path:
        replay.restore(str(path))
    return replay, Streams(replay.store, num_envs, unroll, truncation=truncation)


def drawn(replay, batches):
    """All transitions in this many batches, by (environment, first step), with their number."""
    counts = {}
    for _ in range(batches):
        for key in keys(replay.sample()):
            counts[key] = counts.get(key, 0) + 1
    return counts


def keys(batch):
    """(environment, first step) of the transitions in a batch."""
    return list(zip(*map(np.ndarray.tolist, batch.handle), strict=True))


class Step(NamedTuple):
    """One step of one environment, and the stream that it belongs to."""

    prev_action: np.ndarray
    env: EnvOutput
    agent: AgentOutput
    stream: int
    version: int


def stacked(steps):
    """(prev_action, env, agent) of several steps, in arrays."""
    return optree.tree_map(lambda *leaves: np.stack(leaves), *(step[:3] for step in steps))


class Streams:
    """Environments that end, are cut short and are interrupted at random.

    Attributes:
      steps: all of each environment's steps so far.
    """

    def __init__(self, store, num_envs, unroll, seed=0, truncation=0.1):
        self.store, self._unroll, self._truncation = store, unroll, truncation
        self.steps = [[] for _ in range(num_envs)]
        self._stream = [0] * num_envs
        self._random = np.random.default_rng(seed)

    def reset(self, env_id):
        """Interrupts a stream."""
        self._stream[env_id] += 1
        self.store.reset(np.array([env_id]), self._stream[env_id])

    def advance(self, env_ids, version=0):
        """One step of these environments; returns what they completed, not handed over yet."""
        steps = [self._step(env_id, version) for env_id in env_ids]
        for env_id, step in zip(env_ids, steps, strict=True):
            self.steps[env_id].append(step)
        env_ids = np.array(env_ids, np.int32)
        starting = self.store.starting(env_ids)
        assert len(starting) == 0
        return self.store.append(env_ids, stacked(steps), starting, (), version)

    def play(self, num_steps, env_ids=None):
        """Steps of all environments (or of these) together, handed over."""
        for _ in range(num_steps):
            self.store.hand_over(self.advance(list(range(len(self.steps))) if env_ids is None else env_ids))

    def _step(self, env_id, version):
        before, random = self.steps[env_id], self._random
        truncated = bool(before and before[-1].env.truncated)
        done = not before or truncated or random.random() < 0.1
        image = random.integers(1, 256, SHAPE, dtype=np.uint8)
        observation = {"image": image, "speed": random.random(2, np.float32)}
        env = EnvOutput(
            np.float32(random.random()), done, not done and random.random() < self._truncation, observation
        )
        prev_action = before[-1].agent.action if before else np.int32(0)
        agent = AgentOutput(np.int32(random.integers(1000)), {"q": np.zeros(4, np.float32)})
        return Step(prev_action, env, agent, self._stream[env_id], version)

    def transitions(self, capacity):
        """(environment, number of the first step) of all transitions that a replay should contain."""
        return {
            (env_id, first)
            for env_id, steps in enumerate(self.steps)
            for first in range(len(steps) - self._unroll.length)
            if first > len(steps) - 1 - self._unroll.length - capacity
            and steps[first].stream == steps[first + self._unroll.length].stream
            and not steps[first].env.truncated
        }

    def transition(self, env_id, first):
        """The steps of a transition, history included."""
        steps, history = self.steps[env_id], []
        for step in reversed(steps[max(0, first - self._unroll.burn_in) : first]):
            if step.stream != steps[first].stream:
                break
            history.insert(0, step)
        found = [*history, *steps[first : first + self._unroll.length + 1]]
        if missing := self._unroll.burn_in - len(history):
            env = found[0].env._replace(done=True, truncated=False)
            found[0] = found[0]._replace(env=env)
            found = [found[0]] * missing + found
        return found


def assert_genuine(batch, streams):
    """Every column is the steps of its transition, to the bit."""
    found = optree.tree_leaves((batch.sample.prev_action, batch.sample.env, batch.sample.agent))
    for column, key in enumerate(keys(batch)):
        prev_action, env, agent = stacked(streams.transition(*key))
        expected = optree.tree_leaves((prev_action, env, agent._replace(info={})))
        for x, right in zip(found, expected, strict=True):
            assert x.dtype == right.dtype
            np.testing.assert_array_equal(x[:, column], right)
