"""Step store in plain Python, and steps whose number shows in each of their arrays."""

import numpy as np
import optree

from seed_rl.experience.base import UnrollConfig
from seed_rl.experience.unroll_store import UnrollStore
from seed_rl.types import AgentOutput, EnvOutput, Unroll

SHAPE = (6, 5)


class SlowStore:
    """Lists: every step is kept with the policy version that it met."""

    def __init__(self, num_envs, config):
        self._config = config
        self._skip = [config.every * i // num_envs if config.stagger else 0 for i in range(num_envs)]
        self._steps = [[] for _ in range(num_envs)]
        self._streams = [0] * num_envs

    def reset(self, env_id, stream):
        self._streams[env_id] = stream
        self._steps[env_id] = []

    def append(self, env_id, step, version):
        """One step; returns whether it begins an unroll, and the unrolls that it completes."""
        if self._skip[env_id] > 0:
            self._skip[env_id] -= 1
            return False, []
        steps, config = self._steps[env_id], self._config
        steps.append((step, version))
        begins = (len(steps) - 1) % config.every == 0
        first = len(steps) - config.burn_in - config.length - 1
        if first < 0 or first % config.every:
            return begins, []
        unroll, versions = map(list, zip(*steps[first:], strict=True))
        return begins, [(env_id, self._streams[env_id], first, unroll, versions)]


def step(numbers):
    """(prev_action, env, agent) of the steps with these numbers, from which every array is computed."""
    env = EnvOutput(
        numbers.astype(np.float32),
        numbers % 7 == 0,
        numbers % 7 == 6,
        {"image": frame(numbers), "number": numbers},
    )
    return (numbers - 1).astype(np.int32), env, AgentOutput(numbers.astype(np.int32), {"q": pair(numbers)})


def state(numbers):
    """The recurrent state before these steps."""
    return {"core": pair(numbers), "frames": frame(numbers - 1)}


def pair(numbers):
    return np.stack([numbers, -numbers], -1).astype(np.float32)


def frame(numbers):
    pixels = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    return ((7 * numbers)[..., np.newaxis, np.newaxis] + pixels).astype(np.uint8)


def append(store, env_ids, numbers, version=0):
    """One step of these environments."""
    env_ids, numbers = np.array(env_ids), np.array(numbers, np.int64)
    starting = store.starting(env_ids)
    assert starting.dtype == np.intp
    return store.append(env_ids, step(numbers), starting, state(numbers[starting]), version)


class Streams:
    """Environments whose unrolls the real store cuts.

    The number of a step is 10,000 times its environment, plus its time, which is also the policy version.
    """

    def __init__(self, num_envs, length, burn_in):
        self.stored = burn_in + length + 1
        config = UnrollConfig(length, burn_in, stagger=False)
        self._store = UnrollStore(num_envs, config, lambda unrolls: None)  # Nothing is handed over.
        self._time = [0] * num_envs

    def restart(self, env_id):
        """Breaks the stream off and starts it again, a thousand agent steps later."""
        self._store.reset(np.array([env_id]), self._time[env_id] // 1000 + 1)
        self._time[env_id] += 1000

    def unrolls(self, env_id, count=1):
        """The next unrolls of one environment."""
        found = []
        while len(found) < count:
            time = self._time[env_id]
            found += append(self._store, [env_id], [10_000 * env_id + time], time)
            self._time[env_id] += 1
        return found


def steps_of(unroll):
    """The numbers of the steps `[S]` of an unroll, after a look at all of its arrays and at its state."""
    numbers = unroll.env.observation["number"]
    prev_action, env, agent = step(numbers)
    if not unroll.agent.info:  # Replay keeps none.
        agent = agent._replace(info={})
    expected = prev_action, env, agent, state(numbers[0])
    found = unroll.prev_action, unroll.env, unroll.agent, unroll.initial_state
    for x, right in zip(optree.tree_leaves(found), optree.tree_leaves(expected), strict=True):
        assert x.dtype == right.dtype
        np.testing.assert_array_equal(x, right)
    return numbers.tolist()


def unrolls_of(batch):
    """The unrolls of a batch, in its order."""
    steps = batch.sample.prev_action, batch.sample.env, batch.sample.agent
    for column, versions in enumerate(batch.policy_version.T):
        of_column = optree.tree_map(lambda x, column=column: x[:, column], steps)
        state = optree.tree_map(lambda x, column=column: x[column], batch.sample.initial_state)
        yield Unroll(*of_column, state, versions)


def in_batch(batch):
    """(steps, policy versions) of every unroll in a batch."""
    return [(steps_of(unroll), unroll.policy_version.tolist()) for unroll in unrolls_of(batch)]
