"""Scales rewards by running statistics, to the same scale in every environment."""

import keras
import tensorflow as tf

from seed_rl.networks.scaling import RunningScale
from seed_rl.types import ArraySpec, EnvOutput


class RewardScale(keras.layers.Layer):
    """Divides rewards by the standard deviation of the discounted sums of the rewards so far in an episode.

    A value function has the scale of such sums (Engstrom et al., "Implementation Matters in Deep Policy
    Gradients", 2020, section 3). The state is each environment's sum, float32 `[B]`. It travels with the
    agent's recurrent state, so an unroll includes the sum that it started from.
    """

    def __init__(self, discounting: float):
        """Starts without statistics; until there are some, rewards are left as they are."""
        super().__init__()
        self._discounting = discounting
        self._statistics = RunningScale(ArraySpec((), "float32"))
        self.built = True

    def initial_state(self, batch_size: int | tf.Tensor) -> tf.Tensor:
        """The sums before the first step."""
        return tf.zeros([batch_size])

    def next_state(self, env: EnvOutput, state: tf.Tensor) -> tf.Tensor:
        """The sums after one step `[B]`; the reward at `done` belongs to the episode that ended."""
        return tf.where(env.done, 0.0, self._discounting * state + env.reward)

    def observe(self, env: EnvOutput, state: tf.Tensor) -> None:
        """Adds the sums of unrolls `[T + 1, B]` to the statistics, except the first step, which overlaps."""
        sums = []
        for t in range(env.reward.shape[0]):
            sums.append(self._discounting * state + env.reward[t])
            state = tf.where(env.done[t], 0.0, sums[-1])
        self._statistics.update(tf.stack(sums[1:]))

    def scale(self, reward: tf.Tensor) -> tf.Tensor:
        """Rewards of any shape, scaled by the statistics so far."""
        return reward * self._statistics.affine().scale
