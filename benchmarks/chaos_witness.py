"""The algorithm of `benchmarks chaos`: it chooses the right actions, and checks what it trains on."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.chaos_game import (
    CLOCK,
    DIRECTORY,
    MOST_TASKS,
    TASK,
    Trained,
    WitnessConfig,
    answer,
    report,
    wrong,
)
from seed_rl.algorithms.base import LOSS, Algorithm, Losses, Objective
from seed_rl.algorithms.policy import Acted, Policy
from seed_rl.experience.base import UnrollConfig
from seed_rl.types import AgentOutput, EnvironmentSpec, EnvOutput, Nest, Sample


class Right(Policy):
    """Chooses the right action; its recurrent state is the last observation."""

    def __init__(self, weight: tf.Variable):
        super().__init__(name="right")
        self._weight = weight  # So that there is something to publish.

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """All -1."""
        return tf.fill([batch_size, CLOCK + 1], -1)

    def act(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor) -> Acted:
        """Does not use the state."""
        action = tf.cast(answer(tf.cast(env.observation, tf.int64)), prev_action.dtype)
        return AgentOutput(action, {}), env.observation


class Witness(Algorithm):
    """Trains one number, and checks all unrolls on the way.

    The file `trained` has the number of unrolls checked and of wrong ones, and for each task the time at
    which the newest unroll began; other processes may map it, too.
    """

    def __init__(self, config: WitnessConfig, env_spec: EnvironmentSpec, num_envs: int):
        super().__init__(name="witness")
        self.unroll, self.experience = UnrollConfig(config.unroll_length), config.queue
        self._weight = tf.Variable(1.0)
        self._trained, self._known = open_trained(Path(os.environ[DIRECTORY])), dict[tuple[int, int], int]()

    @property
    def policy(self) -> Policy:
        """The policy."""
        return Right(self._weight)

    @property
    def objectives(self) -> dict[str, Objective]:
        """The number."""
        return {LOSS: Objective([self._weight])}

    def losses(self, sample: Sample) -> Losses:
        """A square."""
        env = sample.env
        arrays = (sample.prev_action, env.reward, env.done, env.truncated, env.observation)
        arrays += (sample.agent.action, sample.initial_state, sample.weight)
        wrong_unrolls = tf.numpy_function(self._check, arrays, tf.float32)
        wrong_unrolls.set_shape([])
        loss = tf.square(self._weight) * tf.ones_like(sample.weight)
        return Losses({LOSS: loss}, None, {"wrong_unrolls": wrong_unrolls})

    def _check(self, *arrays: Any) -> np.float32:
        batch = Trained(*arrays)
        found = wrong(batch, self._known)
        for column in np.flatnonzero(np.any(list(found.values()), axis=0)):
            what = ", ".join(name for name, mask in found.items() if mask[column])
            unroll = {
                name: x[..., column, :] if x.ndim > 2 else x[..., column]
                for name, x in batch._asdict().items()
                if name != "state"
            }
            report(f"unroll: {what}: {unroll} state={batch.state[column]}")
            self._trained[1] += 1
        first = batch.observation[0]
        np.maximum.at(self._trained, 2 + first[:, TASK], first[:, CLOCK])
        self._trained[0] += len(first)
        return np.float32(self._trained[1])


def open_trained(directory: Path) -> np.memmap:
    """The file `trained`, which is made if there is none."""
    path = directory / "trained"
    if not path.exists():
        np.zeros(2 + MOST_TASKS, np.int64).tofile(path)
    return np.memmap(path, np.int64, "r+", shape=(2 + MOST_TASKS,))
