"""Streams of unrolls that can be identified by each of their arrays, cut by the real unroll store."""

import numpy as np

from seed_rl.experience.base import UnrollConfig
from seed_rl.experience.unroll_store import UnrollStore
from seed_rl.types import AgentOutput, EnvOutput

SHAPE = (6, 5)


class Streams:
    """Environments whose frame at agent step t is a function of the environment and t, as is all else."""

    def __init__(self, num_envs, length, burn_in):
        self.length, self.stored = length, burn_in + length + 1
        config = UnrollConfig(length, burn_in, stagger=False)
        self._store = UnrollStore(num_envs, config, lambda unrolls: None)  # Nothing is handed over.
        self._step = np.zeros(num_envs, np.int64)
        self._ids = np.arange(num_envs, dtype=np.int32)

    def restart(self, env_id):
        """Breaks the stream off and starts it again, a thousand agent steps later."""
        self._store.reset(np.array([env_id]), int(self._step[env_id]) // 1000 + 1)
        self._step[env_id] += 1000

    def unrolls(self, env_id, count=1):
        """The next unrolls of one environment."""
        found = []
        while len(found) < count:
            found += self._advance(self._ids[env_id : env_id + 1])
        return found

    def _advance(self, ids):
        time = self._step[ids]
        starting = self._store.starting(ids)
        states = {"core": state(ids, time)[starting], "frames": frame(ids, time - 1)[starting]}
        found = self._store.append(ids, step(ids, time), starting, states, int(time[0]))
        self._step[ids] += 1
        return found


def step(ids, time):
    """(prev_action, env, agent) of environments, each at its own time."""
    env = EnvOutput(
        number(ids, time), time % 7 == 0, time % 7 == 6, {"image": frame(ids, time), "time": time}
    )
    q_values = np.stack([number(ids, time), -number(ids, time)], -1)
    return (time - 1).astype(np.int32), env, AgentOutput(time.astype(np.int32), {"q": q_values})


def number(ids, time):
    return (1000 * ids + time).astype(np.float32)


def frame(ids, time):
    pixels = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    return ((31 * ids + 7 * time)[..., np.newaxis, np.newaxis] + pixels).astype(np.uint8)


def state(ids, time):
    return np.stack([ids, time], -1).astype(np.float32)
