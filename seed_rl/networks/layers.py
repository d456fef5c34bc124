"""Building blocks of networks: chains, linear layers with normalization and activation, and turned images."""

from collections.abc import Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

from seed_rl.networks import images
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.types import ArraySpec


def track_each(owner: Any, layers: Iterable[Any], name: str) -> list[Any]:
    """Makes each layer an attribute of a Keras layer, `name_0`, `name_1`, …, and returns them as a list.

    `tf.train.Checkpoint` silently leaves out the layers of a list (Keras 3).
    """
    layers = list(layers)
    for i, layer in enumerate(layers):
        setattr(owner, f"{name}_{i}", layer)
    return layers


class Composite(keras.layers.Layer):
    """A layer made of layers, which create their variables when it is first called.

    If it had no `build`, Keras would trace `call` on symbolic inputs before that, which is half of the time
    that it takes to make a network.
    """

    def build(self, input_shape: Any) -> None:
        """Creates nothing."""


class Chain(Composite):
    """Applies layers in sequence. Unlike `keras.Sequential`, it leaves the dtype of its input alone."""

    def __init__(self, chain: Sequence[Any]):
        super().__init__(autocast=False)
        self._chain = track_each(self, chain, "layer")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Maps the first layer's input to the last layer's output."""
        for layer in self._chain:
            inputs = layer(inputs)
        return inputs


def dense(config: NetworkConfig, units: int, activation: str = "relu") -> Any:
    """A fully connected layer with an activation and, between the two, layer normalization if wanted."""
    if not config.layer_norm:
        return keras.layers.Dense(units, activation=activation, kernel_initializer=config.initializer)
    linear = keras.layers.Dense(units, kernel_initializer=config.initializer)
    return Chain([linear, *normalization(True), keras.layers.Activation(activation)])


def normalization(layer_norm: bool) -> list[Any]:
    """Layer normalization (Ba et al., 2016) over the last dimension, or nothing."""
    return [keras.layers.LayerNormalization()] if layer_norm else []


def turn(pixels: tf.Tensor, spec: ArraySpec, num_frames: int = 1) -> tf.Tensor:
    """Puts height and width first: from `[..., *spec.shape, num_frames]` to `[N, *turned_shape]`.

    N is the product of the leading dimensions, which need not be there.
    """
    flat = tf.reshape(pixels, [-1, *spec.shape, num_frames])
    order = [1 + dimension for dimension in images.dimensions(spec)]
    flat = tf.transpose(flat, [0, *order, len(flat.shape) - 1])
    return tf.reshape(flat, [-1, *images.turned_shape(spec, num_frames)])
