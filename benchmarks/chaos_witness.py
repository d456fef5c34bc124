"""The algorithm of `benchmarks chaos`: it chooses the right actions, and checks what it trains on."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.chaos_parts import CLOCK, DIRECTORY, TASK, WitnessConfig, answer, report, wrong
from seed_rl.algorithms.base import LOSS, Algorithm, Losses, Objective
from seed_rl.algorithms.policy import Acted, Policy
from seed_rl.experience.base import UnrollConfig
from seed_rl.types import AgentOutput, EnvironmentSpec, EnvOutput, Nest, Sample

_NAMES = ("prev_action", "reward", "done", "truncated", "observation", "action", "state", "weight")


class Right(Policy):
    """Chooses the right action; its recurrent state is the last observation, and -1 before the first."""

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """See `Policy`."""
        return tf.fill([batch_size, CLOCK + 1], -1)

    def act(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor) -> Acted:
        """See `Policy`."""
        action = tf.cast(answer(tf.cast(env.observation, tf.int64)), prev_action.dtype)
        return AgentOutput(action, {}), env.observation


class Witness(Algorithm):
    """Trains one number, and checks all unrolls on the way.

    The file `trained` has the number of unrolls checked, the number of wrong ones, and for each task the time
    at which the newest unroll began.
    """

    def __init__(self, config: WitnessConfig, env_spec: EnvironmentSpec, num_envs: int):
        super().__init__(name="witness")
        self.unroll, self.experience = UnrollConfig(config.unroll_length), config.queue
        self._number, self._known = tf.Variable(1.0), dict[tuple[int, ...], int]()
        self._trained = np.memmap(Path(os.environ[DIRECTORY]) / "trained", np.int64, "r+")

    @property
    def policy(self) -> Policy:
        """See `Algorithm`."""
        return Right()

    @property
    def objectives(self) -> dict[str, Objective]:
        """See `Algorithm`."""
        return {LOSS: Objective([self._number])}

    def losses(self, sample: Sample) -> Losses:
        """See `Algorithm`."""
        own = (*sample.env, sample.agent.action, sample.initial_state, sample.weight)
        tf.numpy_function(self._check, (sample.prev_action, *own), [])
        return Losses({LOSS: tf.square(self._number) * tf.ones_like(sample.weight)}, None, {})

    def _check(self, *arrays: Any) -> None:
        batch = dict(zip(_NAMES, arrays, strict=True))
        found = wrong(batch, self._known)
        for column in np.flatnonzero(np.any(list(found.values()), axis=0)):
            whole = {n: x[column] if n in ("state", "weight") else x[:, column] for n, x in batch.items()}
            what = [name for name, mask in found.items() if mask[column]]
            report(f"unroll: {what}: { {name: x.tolist() for name, x in whole.items()} }")
            self._trained[1] += 1
        first = batch["observation"][0]
        np.maximum.at(self._trained, 2 + first[:, TASK], first[:, CLOCK])
        self._trained[0] += len(first)
