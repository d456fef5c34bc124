"""Step store in plain Python, and steps that have their number in each of their arrays."""

import numpy as np
import optree

from seed_rl.types import AgentOutput, EnvOutput, Unroll


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


def env_of(steps):
    """Output of the environments at these steps."""
    steps = np.array(steps, np.float32)
    false = np.zeros(len(steps), bool)
    return EnvOutput(steps, false, false, {"image": np.stack([steps, steps + 0.5], axis=1)})


def append(store, env_ids, steps, version=0):
    """One step of these environments; every array holds the step's number, the state holds minus it."""
    env_ids, steps = np.array(env_ids), np.array(steps, np.float32)
    starting = store.starting(env_ids)
    assert starting.dtype == np.intp
    state, agent = (-steps[starting],), AgentOutput(steps, {"q": steps})
    return store.append(env_ids, (steps, env_of(steps), agent), starting, state, version)


def steps_of(unroll):
    """The numbers of the steps `[S]` of an unroll; all of its arrays must be of these, and of its state."""
    steps = unroll.env.reward
    np.testing.assert_array_equal(unroll.prev_action, steps)
    np.testing.assert_array_equal(unroll.agent.action, steps)
    np.testing.assert_array_equal(unroll.agent.info["q"], steps)
    np.testing.assert_array_equal(unroll.env.observation["image"], np.stack([steps, steps + 0.5], axis=1))
    assert unroll.initial_state[0] == -steps[0]
    return steps.tolist()


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
