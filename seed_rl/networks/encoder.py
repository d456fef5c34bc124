"""From a nest of observations to one vector of features: frame stacking and a torso for each array."""

from typing import Any

import keras
import tensorflow as tf

from seed_rl.networks import images, stacking, torsos
from seed_rl.networks.custom import load_network
from seed_rl.networks.layers import track_each
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.scaling import RunningScale
from seed_rl.networks.stacking import unpack
from seed_rl.types import ArraySpec, Nest, flatten_like, flatten_spec, pack_like

# A batch of 1,000 such vectors is 260 MB.
_LARGEST_ONE_HOT = 2**16


class Encoder(keras.layers.Layer):
    """Encodes each array of an observation separately and concatenates the features.

    The state is {name: frame-stacking state} for the arrays that are stacked; a bare array is named
    `observation`.
    """

    def __init__(self, config: NetworkConfig, observation_spec: Nest):
        """Creates one torso per array.

        Raises:
          ValueError: the settings require a convolutional torso or frame stacking, but the observation
            has no suitable image, or a discrete array has too many values.
        """
        super().__init__()
        leaves = flatten_spec(observation_spec)
        specs = [spec.unpacked for _, spec in leaves]
        if config.torso not in ("auto", "mlp") and not any(map(images.is_image, specs)):
            raise ValueError(
                f"--torso={config.torso} needs images, but the observation is {observation_spec}; "
                "use --torso=auto."
            )
        if config.frame_stack > 1 and not any(map(stacking.is_stackable, specs)):
            raise ValueError(
                f"--frame_stack={config.frame_stack} needs images of uint8 or bool, but the observation is "
                f"{observation_spec}; use --frame_stack=1."
            )
        self._observation_spec = observation_spec
        self._names = tuple(name or "observation" for name, _ in leaves)
        self._specs = tuple(spec for _, spec in leaves)
        self._network: Any = None
        if config.network:
            self._network = load_network(config.network)(pack_like(observation_spec, specs))
        stacks: list[stacking.FrameStack | None] = []
        scales: list[RunningScale | None] = []
        made = []
        for (name, packed), spec in zip(leaves, specs, strict=True):
            is_image = images.is_image(spec)
            num_frames = config.frame_stack if stacking.is_stackable(spec) else 1
            # A custom network gets images as the environment has them.
            is_turned = not config.network and images.must_be_turned(spec, config.torso)
            # Even a single frame may need a channel dimension.
            stack = stacking.FrameStack(num_frames, packed, is_turned) if is_image else None
            scale = None
            if config.normalize_observations and not torsos.is_one_hot(spec):
                scale = RunningScale(spec, num_frames, one_scale=is_image, is_turned=is_turned)
            stacks.append(stack)
            scales.append(scale)
            if self._network is None:
                made.append(torsos.make_torso(config, spec, stack.shape if stack else spec.shape, scale))
                if isinstance(made[-1], torsos.MLP):
                    _check_one_hot(name, spec)
        self._stacks, self._scales = tuple(stacks), scales
        self._torsos = track_each(self, made, "torso")

    def observe(self, observation: Nest) -> None:
        """Adds observations, nest of `[..., *shape]`, to the running statistics, if there are any."""
        arrays = flatten_like(self._observation_spec, observation)
        for scale, spec, array in zip(self._scales, self._specs, arrays, strict=True):
            if scale:
                scale.update(unpack(array, spec))

    def initial_state(self, batch_size: int | tf.Tensor) -> dict[str, tf.Tensor]:
        """The state before the first step; empty if nothing is stacked."""
        named = zip(self._names, self._stacks, strict=True)
        return {name: stack.initial_state(batch_size) for name, stack in named if stack and stack.has_state}

    def states(self, observation: Nest, done: tf.Tensor, state: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The states before each step of observations `[T, B, ...]`: `[T, B, ...]`; see `encode`."""
        arrays = flatten_like(self._observation_spec, observation)
        named = zip(self._names, self._stacks, arrays, strict=True)
        return {
            name: stack.states(array, done, state[name])
            for name, stack, array in named
            if stack and stack.has_state
        }

    def encode(
        self, observation: Nest, done: tf.Tensor, state: dict[str, tf.Tensor]
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """From observations, nest of `[T, B, ...]`, to features float32 `[T, B, F]` and the next state."""
        inputs, next_state = [], {}
        arrays = flatten_like(self._observation_spec, observation)
        for name, spec, array, stack in zip(self._names, self._specs, arrays, self._stacks, strict=True):
            if stack is None:
                array = unpack(array, spec)
            else:
                array, stacked = stack.stack(array, done, state.get(name, ()))
                if stack.has_state:
                    next_state[name] = stacked
            inputs.append(array)
        if self._network is not None:
            return self._apply_network(inputs), next_state
        features = [apply_to_each_step(torso, x) for torso, x in zip(self._torsos, inputs, strict=True)]
        return (features[0] if len(features) == 1 else tf.concat(features, -1)), next_state

    def _apply_network(self, arrays: list[tf.Tensor]) -> tf.Tensor:
        """Applies the custom network to arrays `[T, B, ...]`: float32 `[T, B, F]`."""
        steps = [tf.reshape(x, [-1, *x.shape[2:]]) for x in arrays]
        outputs = self._network(pack_like(self._observation_spec, steps))
        if len(outputs.shape) != 2 or outputs.dtype not in (tf.float32, self.compute_dtype):
            raise ValueError(
                f"--network={type(self._network).__name__} returned {outputs.dtype.name}{outputs.shape}; it "
                "must return features, float32 [N, F]."
            )
        outputs = tf.cast(outputs, tf.float32)
        return tf.reshape(outputs, [arrays[0].shape[0], -1, outputs.shape[-1]])


def _check_one_hot(name: str, spec: ArraySpec) -> None:
    """Raises ValueError if the MLP's one-hot vectors of an array would need too much memory."""
    size = max(spec.num_values) * spec.size if torsos.is_one_hot(spec) else 0
    if size > _LARGEST_ONE_HOT:
        label = f" '{name}'" if name else ""
        raise ValueError(
            f"The observation{label} would become a one-hot vector of {size:,} numbers, more than "
            f"{_LARGEST_ONE_HOT:,}; write it as several smaller numbers (MultiDiscrete) or as a Box, or give "
            "a --network of your own."
        )


def apply_to_each_step(layer: Any, inputs: tf.Tensor) -> tf.Tensor:
    """Applies a layer `[N, ...] -> [N, F]` to `[T, B, ...]` as one batch, float32; T must be known."""
    outputs = tf.cast(layer(tf.reshape(inputs, [-1, *inputs.shape[2:]])), tf.float32)
    return tf.reshape(outputs, [inputs.shape[0], -1, outputs.shape[-1]])
