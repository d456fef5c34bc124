"""What a step store should do, in plain Python, and steps that say what they are in each of their arrays."""

import numpy as np

from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.types import AgentOutput, EnvOutput

CUTS = [
    UnrollConfig(3, period=1, stagger=False),  # Transitions of three steps.
    UnrollConfig(1, period=1, stagger=False),
    UnrollConfig(3, burn_in=2, period=1, stagger=False),
    UnrollConfig(5, period=2, stagger=False),
    UnrollConfig(5, period=2),
    UnrollConfig(4, burn_in=3, period=2),
    UnrollConfig(4, burn_in=3, period=3),
    UnrollConfig(2, burn_in=1, period=4),  # As long as its period.
    UnrollConfig(3, period=7),  # Steps between unrolls are in none of them.
    UnrollConfig(3, burn_in=1, period=11),
    UnrollConfig(6, burn_in=4),
]


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
        unroll, version = [number for number, _ in steps[first:]], steps[first][1]
        return begins, [(env_id, self._streams[env_id], first, unroll, version)]


def append(store, env_ids, steps, version=0):
    """One step of these environments; every array holds the step's number, the state holds minus it."""
    env_ids, steps = np.array(env_ids), np.array(steps, np.float32)
    false = np.zeros(len(steps), bool)
    env = EnvOutput(steps, false, false, {"image": np.stack([steps, steps + 0.5], axis=1)})
    starting = store.starting(env_ids)
    assert starting.dtype == np.intp
    state = (-steps[starting],)
    return store.append(env_ids, steps, env, AgentOutput(steps, {"q": steps}), starting, state, version)


def steps_of(unroll):
    """The numbers of the steps `[S]` of an unroll; all of its arrays must be of these, and of its state."""
    steps = unroll.env.reward
    np.testing.assert_array_equal(unroll.prev_action, steps)
    np.testing.assert_array_equal(unroll.agent.action, steps)
    np.testing.assert_array_equal(unroll.agent.info["q"], steps)
    np.testing.assert_array_equal(unroll.env.observation["image"], np.stack([steps, steps + 0.5], axis=1))
    assert unroll.initial_state[0] == -steps[0]
    return steps.tolist()
