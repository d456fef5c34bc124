"""Torsos, which turn one kind of observation into a flat vector of features.

Each is a Keras layer from `[N, *shape]` to `[N, F]` of the dtype that layers compute in.
"""

from typing import Any

import keras
import tensorflow as tf

from seed_rl.networks.images import MIN_IMAGE_SIZE, is_image
from seed_rl.networks.layers import Chain, Composite, dense, normalization
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.scaling import FixedScale, RunningScale
from seed_rl.types import ArraySpec

Scale = FixedScale | RunningScale

_SMALLEST_IMAGE = {"minatar": 3, "shallow": 20, "nature": MIN_IMAGE_SIZE, "resnet": 1, "football": 1}
# Units of the layer after the convolutions, unless the settings say otherwise.
_UNITS = {"minatar": 128, "shallow": 256, "nature": 512, "resnet": 256, "football": 256}
# (filters, kernel size, stride) of each convolution, without padding.
_CONVOLUTIONS = {
    "minatar": ((16, 3, 1),),
    "shallow": ((16, 8, 4), (32, 4, 2)),
    "nature": ((32, 8, 4), (64, 4, 2), (64, 3, 1)),
}
# Channels of each section of a residual network.
_SECTIONS = {
    "resnet": (16, 32, 32),
    # Kurach et al., "Google Research Football", 2019: IMPALA's, with one more section.
    "football": (16, 32, 32, 32),
}
# Scaled vectors are clipped to this, for the sake of components that hardly ever change.
_MAX_ABS_SCALED = 10.0


def is_one_hot(spec: ArraySpec) -> bool:
    """True for bounded integers, whose values the MLP turns into one-hot vectors."""
    return spec.is_discrete and spec.maximum is not None


def make_torso(
    config: NetworkConfig, spec: ArraySpec, shape: tuple[int, ...], scale: Scale | None = None
) -> Any:
    """Creates the torso for one array of an observation; anything that is not an image gets the MLP.

    `spec` is that of the environment's array, and `shape` the array's as the torso's input, after frame
    stacking: `(H, W, C)` if it is convolved. Without a `scale`, inputs are scaled by `FixedScale`.

    Raises:
      ValueError: the image is too small for the torso that was chosen.
    """
    scale, name = scale or FixedScale(spec), config.torso
    if not is_image(spec) or name == "mlp" or (name == "auto" and min(shape[:2]) < MIN_IMAGE_SIZE):
        return MLP(config, spec, scale)
    if name == "auto":
        name = "shallow"
    if config.conv_padding and len(_CONVOLUTIONS.get(name, ())) < 2:
        raise ValueError(
            f"--conv_padding={config.conv_padding} is for --torso=shallow and nature, and this is {name}; "
            "leave it out."
        )
    height, width, _ = shape
    smallest = _SMALLEST_IMAGE[name]
    if min(height, width) < smallest:
        raise ValueError(
            f"--torso={name} needs images of at least {smallest}x{smallest}, but this environment's are "
            f"{height}x{width}; use --torso=auto or --torso=mlp."
        )
    chain = _residual(config, name, scale) if name in _SECTIONS else _convolutional(config, name, scale)
    chain.append(keras.layers.Flatten())
    if units := _UNITS[name] if config.torso_units is None else config.torso_units:
        chain.append(dense(config, units))
    return Chain(chain)


class MLP(Composite):
    """Flattens its input, then applies fully connected layers with an activation.

    Bounded integers become one-hot vectors; anything else is scaled.
    """

    def __init__(self, config: NetworkConfig, spec: ArraySpec, scale: Scale):
        super().__init__(autocast=False)  # Raw observations are scaled in float32.
        self._spec, self._scale = spec, scale
        self._dense = Chain([dense(config, units, config.mlp_activation) for units in config.mlp_units])

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Maps `[N, *shape]` to `[N, F]`."""
        flat = tf.reshape(inputs, [tf.shape(inputs)[0], inputs.shape[1:].num_elements()])
        if is_one_hot(self._spec):
            one_hot = tf.one_hot(tf.cast(flat, tf.int32), max(self._spec.num_values))
            features = tf.reshape(one_hot, [tf.shape(flat)[0], one_hot.shape[1:].num_elements()])
        else:
            features = self._scaled(tf.cast(flat, tf.float32))
        return self._dense(features)

    def _scaled(self, flat: tf.Tensor) -> tf.Tensor:
        shift, scale = self._scale.affine()
        if shift is None:
            return flat * scale
        scaled = (flat - tf.reshape(shift, [-1])) * tf.reshape(scale, [-1])
        return tf.clip_by_value(scaled, -_MAX_ABS_SCALED, _MAX_ABS_SCALED)


def _convolutional(config: NetworkConfig, name: str, scale: Scale) -> list[Any]:
    """Convolutions with ReLU: `[N, H, W, C]` to `[N, H', W', filters]`.

    This covers IMPALA's small CNN (Espeholt et al., 2018, figure 3, left), the CNN of Mnih et al., 2015, and
    the one by MinAtar's authors (Young and Tian, 2019).
    """
    chain: list[Any] = []
    for i, (narrow, size, stride) in enumerate(_CONVOLUTIONS[name]):
        filters = narrow * config.network_width
        kwargs = {
            "activation": None if config.layer_norm else "relu",
            "kernel_initializer": config.initializer,
        }
        if i == 0:
            chain.append(PixelConv2D(scale, filters, size, stride, **kwargs))
        else:
            if config.conv_padding:
                chain.append(keras.layers.ZeroPadding2D(config.conv_padding))
            chain.append(keras.layers.Conv2D(filters, size, stride, **kwargs))
        if config.layer_norm:
            chain += [*normalization(True), keras.layers.ReLU()]
    return chain


def _residual(config: NetworkConfig, name: str, scale: Scale) -> list[Any]:
    """The deep network of IMPALA (2018, figure 3, right): `[N, H, W, C]` to `[N, H', W', filters]`.

    Each section is a convolution, a pooling that halves the image, and two residual blocks. The convolutions
    use Glorot's initializer, whatever the settings say.
    """
    chain: list[Any] = []
    for i, narrow in enumerate(_SECTIONS[name]):
        filters = narrow * config.network_width
        chain.append(PixelConv2D(scale, filters, 3, padding="same") if i == 0 else _conv3x3(filters))
        chain += normalization(config.layer_norm)
        chain.append(keras.layers.MaxPooling2D(3, 2, padding="same"))
        chain += [ResidualBlock(filters, config.layer_norm) for _ in range(2)]
    return [*chain, keras.layers.ReLU()]


class ResidualBlock(Composite):
    """`x + conv(relu(conv(relu(x))))` with 3x3 convolutions, each followed by its normalization if wanted."""

    def __init__(self, filters: int, layer_norm: bool = False):
        super().__init__()
        chain: list[Any] = []
        for _ in range(2):
            chain += [keras.layers.ReLU(), _conv3x3(filters), *normalization(layer_norm)]
        self._branch = Chain(chain)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Maps `[N, H, W, filters]` to the same shape."""
        return inputs + self._branch(inputs)


class PixelConv2D(keras.layers.Conv2D):
    """A convolution of raw images, including their scaling.

    A convolution is linear, so the kernel is scaled and the convolution of the shift is subtracted. Doing
    this to the images would cost more, since they are many times larger.
    """

    def __init__(self, scale: Scale, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs, autocast=False)
        self._scale = scale

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Maps `[N, H, W, C]` of any dtype to `[N, H', W', filters]` of the dtype that layers compute in."""
        shift, scale = self._scale.affine()
        images = inputs
        if shift is not None and self.compute_dtype != "float32":
            # The difference of two convolutions would lose most of bfloat16's eight bits, and that of two
            # integers up to 255 none.
            whole = tf.round(shift)
            dtype = self.compute_dtype if inputs.dtype == tf.uint8 else tf.float32
            images, shift = tf.cast(inputs, dtype) - tf.cast(whole, dtype), shift - whole
        kernel = self.kernel * scale
        outputs = self._convolve(images, kernel)
        bias = tf.cast(self.bias, outputs.dtype)
        if shift is None:
            return self.activation(tf.nn.bias_add(outputs, bias))
        return self.activation(outputs + (bias - self._convolve(shift[tf.newaxis], kernel)))

    def _convolve(self, images: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        arguments = (tf.cast(x, self.compute_dtype) for x in (images, kernel))
        return tf.nn.conv2d(*arguments, self.strides, self.padding.upper())


def _conv3x3(filters: int) -> Any:
    return keras.layers.Conv2D(filters, 3, padding="same")
