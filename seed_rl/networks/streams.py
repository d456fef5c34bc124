"""Streams from features to values, and how a dueling network joins two of them."""

from typing import Any

import keras
import tensorflow as tf

from seed_rl.networks.layers import dense
from seed_rl.networks.noisy import NoisyDense


def make_stream(
    units: int,
    outputs: int,
    initializer: str,
    last_initializer: str | None,
    layer_norm: bool = False,
    noisy_sigma: float | None = None,
) -> tuple[Any, Any]:
    """A hidden layer with a ReLU, and a linear one, which always computes in float32.

    bfloat16 has three digits, too few for a Q-value.

    Args:
      units: units of the hidden layer; 0: there is none (None is returned in its place).
      outputs: units of the last layer.
      initializer: of the hidden layer, by its name in Keras.
      last_initializer: of the last layer; None: Glorot's, or the noisy layer's own.
      layer_norm: whether the hidden layer is normalized before its ReLU.
      noisy_sigma: makes both layers noisy, with noise of this size at the start.
    """
    if noisy_sigma is not None:
        hidden = NoisyDense(units, noisy_sigma, "relu", layer_norm=layer_norm) if units else None
        return hidden, NoisyDense(outputs, noisy_sigma, initializer=last_initializer, dtype="float32")
    hidden = dense(units, initializer, layer_norm=layer_norm) if units else None
    last_initializer = last_initializer or "glorot_uniform"
    return hidden, keras.layers.Dense(outputs, kernel_initializer=last_initializer, dtype="float32")


def duel(value: tf.Tensor, advantage: tf.Tensor, axis: int = -1) -> tf.Tensor:
    """`V(x) + A(x, a) - mean over b of A(x, b)` (Wang et al., 2016, equation 9).

    Args:
      value: has a single entry along `axis`.
      advantage: has one for each action.
      axis: the dimension of actions.
    """
    return value + advantage - tf.reduce_mean(advantage, axis, keepdims=True)
