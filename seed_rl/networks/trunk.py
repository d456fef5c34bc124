"""The trunk of every agent's network: observations, last action and reward in, features out; and its LSTM."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from seed_rl.networks.action_mask import without_mask
from seed_rl.networks.encoder import Encoder
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.ops.distributions import bounds_of
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput, Nest, flatten_spec, pack_like

# As inputs, larger actions would drown everything else, and those without bounds might grow without end.
LARGE_ACTION = 10.0


class Trunk(keras.layers.Layer):
    """Encoder, last action and reward, and optionally an LSTM (IMPALA, 2018, figure 3, without the heads).

    The state is a dict with `core` (the LSTM's) and `frames` (frame stacking's), each only if there is one;
    it is an empty tuple if there is neither.
    """

    def __init__(self, config: NetworkConfig, env_spec: EnvironmentSpec):
        """The first call of `unroll` creates the variables (see `example`). Raises what `Encoder` does."""
        super().__init__()
        self._env_spec = env_spec
        self._use_last_action_and_reward = config.use_last_action_and_reward
        self._max_abs_last_reward = config.max_abs_last_reward
        self._encoder = Encoder(config, without_mask(env_spec.observation))
        is_glorot = config.initializer == "glorot_uniform"
        kernel = "glorot_uniform" if is_glorot else "orthogonal"
        self._core = LSTM(config.lstm_size, kernel) if config.lstm_size else None

    @property
    def is_recurrent(self) -> bool:
        """Whether there is an LSTM."""
        return self._core is not None

    def example(self) -> tuple[tf.Tensor, EnvOutput, Nest]:
        """Arguments of `unroll` for T = B = 1, with which networks create their variables."""
        leaves = flatten_spec(self._env_spec.observation)
        observation = pack_like(self._env_spec.observation, [tf.constant(s.zeros(1, 1)) for _, s in leaves])
        done = tf.ones([1, 1], tf.bool)
        env = EnvOutput(tf.zeros([1, 1]), done, tf.zeros([1, 1], tf.bool), observation)
        return tf.constant(self._env_spec.action.zeros(1, 1)), env, self.initial_state(1)

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """The state before the first step: nest of `[B, ...]`."""
        state = {}
        if frames := self._encoder.initial_state(batch_size):
            state["frames"] = frames
        if self._core:
            state["core"] = self._core.initial_state(batch_size)
        return state or ()

    def observe(self, env: EnvOutput) -> None:
        """Adds observations to the running statistics, if the settings enable them."""
        self._encoder.observe(env.observation)

    def states(self, env: EnvOutput, state: Nest) -> Nest:
        """The states before each step, without running the network, so that steps can be run separately.

        Args:
          env: `[T, B, ...]`; T must be known when this is traced.
          state: the state before the first step, nest of `[B, ...]`.

        Returns:
          A nest of `[T, B, ...]`, an empty tuple if there is no state.

        Raises:
          ValueError: the network has an LSTM, whose states only a run of the network gives.
        """
        if self._core:
            raise ValueError("The states of a network with an LSTM are not known before it has run.")
        frames = self._encoder.states(env.observation, env.done, (state or {}).get("frames", {}))
        return {"frames": frames} if frames else ()

    def unroll(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest) -> tuple[tf.Tensor, Nest]:
        """Runs over time; the state is reset before each step where `env.done` is set.

        Args:
          prev_action: `[T, B, ...]`, the actions that produced `env`; T must be known when this is traced.
          env: `[T, B, ...]`.
          state: the state before the first step, nest of `[B, ...]`.

        Returns:
          Features float32 `[T, B, F]`, and the state after the last step.
        """
        state = state or {}
        features, frames = self._encoder.encode(env.observation, env.done, state.get("frames", {}))
        next_state: dict[str, Nest] = {"frames": frames} if frames else {}
        if self._use_last_action_and_reward:
            last = last_action_and_reward(self._env_spec.action, prev_action, env, self._max_abs_last_reward)
            features = tf.concat([features, last], -1)
        if self._core:
            features, next_state["core"] = self._core.unroll(features, env.done, state["core"])
        return features, next_state or ()


def last_action_and_reward(
    action_spec: ArraySpec, prev_action: tf.Tensor, env: EnvOutput, max_abs_reward: float
) -> tf.Tensor:
    """Features float32 `[T, B, A + 1]`: the last action, then the last reward.

    Integer actions become one-hot vectors. A Box is flattened: components with bounds beyond LARGE_ACTION are
    scaled by them, to [-1, 1] if they have both, and those that lack one are clipped to LARGE_ACTION. All are
    zeros at an episode's first step. `prev_action` `[T, B, ...]` has produced `env` `[T, B]`, whose reward is
    clipped to `max_abs_reward`, unless that is 0.
    """
    if action_spec.is_discrete:
        actions = prev_action[..., tf.newaxis] if action_spec.shape == () else prev_action
        columns = zip(tf.unstack(actions, axis=-1), action_spec.num_values, strict=True)
        action = tf.concat([tf.one_hot(column, n) for column, n in columns], -1)
    else:
        action = tf.reshape(prev_action, [prev_action.shape[0], -1, action_spec.size])
        middle, half_range, is_bounded, _ = bounds_of(action_spec)
        is_large = np.abs(middle) + half_range > LARGE_ACTION
        if is_large.any():
            action = (action - np.where(is_large, middle, 0.0)) / np.where(is_large, half_range, 1.0)
        if not is_bounded.all():
            action = tf.clip_by_value(action, -LARGE_ACTION, LARGE_ACTION)
    reward = env.reward
    if max_abs_reward:
        reward = tf.clip_by_value(reward, -max_abs_reward, max_abs_reward)
    return tf.where(env.done[..., tf.newaxis], 0.0, tf.concat([action, reward[..., tf.newaxis]], -1))


class LSTM(keras.layers.Layer):
    """An LSTM (Hochreiter and Schmidhuber, 1997, with the forget gate of Gers et al., 1999).

    The state is {"c": cell, "h": output}, float32 `[B, size]` each. It computes what `keras.layers.LSTMCell`
    does, but multiplies the inputs of all T steps in one matrix product: forward and backward then take
    about two thirds of the time on a CPU (256 units, 21 steps, B = 16 and 32, the LSTM alone).
    """

    def __init__(self, size: int, recurrent_initializer: str = "orthogonal"):
        super().__init__()
        self.size = size
        self._inputs = keras.layers.Dense(4 * size, bias_initializer=_open_forget_gate)
        self._recurrent = keras.layers.Dense(
            4 * size, use_bias=False, kernel_initializer=recurrent_initializer
        )

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        """All zeros."""
        zeros = tf.zeros([batch_size, self.size])
        return {"c": zeros, "h": zeros}

    def unroll(self, inputs: tf.Tensor, done: tf.Tensor, state: Nest) -> tuple[tf.Tensor, Nest]:
        """From inputs float32 `[T, B, D]` to outputs float32 `[T, B, size]` and the last state.

        T must be known when this is traced. Where `done[t]` is set, the state is reset before step t.
        """
        outputs = []
        for projected, first in zip(tf.unstack(self._inputs(inputs)), tf.unstack(done), strict=True):
            state = {name: tf.where(first[:, tf.newaxis], 0.0, x) for name, x in state.items()}
            gates = tf.cast(projected + self._recurrent(state["h"]), tf.float32)
            write, forget, candidate, read = tf.split(gates, 4, -1)
            cell = tf.sigmoid(forget) * state["c"] + tf.sigmoid(write) * tf.tanh(candidate)
            outputs.append(tf.sigmoid(read) * tf.tanh(cell))
            state = {"c": cell, "h": outputs[-1]}
        return tf.stack(outputs), state


def _open_forget_gate(shape: tuple[int, ...], dtype: Any = None) -> tf.Tensor:
    """A bias of 1 for the forget gate and 0 for the others."""
    return tf.repeat(tf.constant([0.0, 1.0, 0.0, 0.0], dtype), shape[0] // 4)
