"""From a nest of observations to one vector of features: a torso for each array, or a custom network."""

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from seed_rl.loading import entry_points, load_named
from seed_rl.networks import images, stacking, torsos
from seed_rl.networks.layers import track_each
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.scaling import RunningScale
from seed_rl.types import ArraySpec, Nest, flatten_like, flatten_spec, pack_like

# A batch of 1,000 such vectors is 260 MB.
_LARGEST_ONE_HOT = 2**16
_ENTRY_POINTS = "seed_rl.networks"


@dataclasses.dataclass(frozen=True)
class _Input:
    """One array of an observation, with its stack if it is an image, and its running statistics if any."""

    name: str
    spec: ArraySpec
    stack: stacking.FrameStack | None
    scale: RunningScale | None

    @property
    def has_state(self) -> bool:
        return self.stack is not None and self.stack.has_state


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
        self._inputs = tuple(_input(config, name or "observation", spec) for name, spec in leaves)
        self._network: Any = None
        if config.network:
            self._network = load_network(config.network)(pack_like(observation_spec, specs))
            return
        made = []
        for spec, x in zip(specs, self._inputs, strict=True):
            shape = x.stack.shape if x.stack else spec.shape
            made.append(torsos.make_torso(config, spec, shape, x.scale))
            if isinstance(made[-1], torsos.MLP):
                _check_one_hot(x.name, spec)
        self._torsos = track_each(self, made, "torso")

    def observe(self, observation: Nest) -> None:
        """Adds observations, nest of `[..., *shape]`, to the running statistics, if there are any."""
        for x, array in self._with(observation):
            if x.scale:
                x.scale.update(stacking.unpack(array, x.spec))

    def initial_state(self, batch_size: int | tf.Tensor) -> dict[str, tf.Tensor]:
        """The state before the first step; empty if nothing is stacked."""
        return {x.name: x.stack.initial_state(batch_size) for x in self._inputs if x.stack and x.has_state}

    def states(self, observation: Nest, done: tf.Tensor, state: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The states before each step of observations `[T, B, ...]`: `[T, B, ...]`; see `encode`."""
        return {
            x.name: x.stack.states(array, done, state[x.name])
            for x, array in self._with(observation)
            if x.stack and x.has_state
        }

    def encode(
        self, observation: Nest, done: tf.Tensor, state: dict[str, tf.Tensor]
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """From observations, nest of `[T, B, ...]`, to features float32 `[T, B, F]` and the next state."""
        arrays, next_state = [], {}
        for x, array in self._with(observation):
            if x.stack is None:
                arrays.append(stacking.unpack(array, x.spec))
                continue
            stacks, stacked = x.stack.stack(array, done, state.get(x.name, ()))
            arrays.append(stacks)
            if x.has_state:
                next_state[x.name] = stacked
        steps = [tf.reshape(array, [-1, *array.shape[2:]]) for array in arrays]
        if self._network is not None:
            outputs = [self._network(pack_like(self._observation_spec, steps))]
            self._check_features(outputs[0])
        else:
            outputs = [torso(array) for torso, array in zip(self._torsos, steps, strict=True)]
        num_steps = arrays[0].shape[0]
        outputs = [tf.reshape(tf.cast(x, tf.float32), [num_steps, -1, x.shape[-1]]) for x in outputs]
        return (outputs[0] if len(outputs) == 1 else tf.concat(outputs, -1)), next_state

    def _with(self, observation: Nest) -> Any:
        """Pairs of inputs and their arrays."""
        return zip(self._inputs, flatten_like(self._observation_spec, observation), strict=True)

    def _check_features(self, features: tf.Tensor) -> None:
        """Raises ValueError if a custom network returns anything but `[N, F]` of the right dtype."""
        if len(features.shape) != 2 or features.dtype not in (tf.float32, self.compute_dtype):
            raise ValueError(
                f"--network={type(self._network).__name__} returned {features.dtype.name}{features.shape}; "
                "it must return features, float32 [N, F]."
            )


def _input(config: NetworkConfig, name: str, packed: ArraySpec) -> _Input:
    spec, stack, scale = packed.unpacked, None, None
    if images.is_image(spec):  # Even a single frame may need a channel dimension.
        num_frames = config.frame_stack if stacking.is_stackable(spec) else 1
        # A custom network gets images as the environment has them.
        is_turned = not config.network and images.must_be_turned(spec, config.torso)
        stack = stacking.FrameStack(num_frames, packed, is_turned)
    if config.normalize_observations and not torsos.is_one_hot(spec):
        scale = RunningScale(spec, stack)
    return _Input(name, packed, stack, scale)


def _check_one_hot(name: str, spec: ArraySpec) -> None:
    """Raises ValueError if the MLP's one-hot vectors of an array would need too much memory."""
    size = max(spec.num_values) * spec.size if torsos.is_one_hot(spec) else 0
    if size > _LARGEST_ONE_HOT:
        raise ValueError(
            f"The observation '{name}' would become a one-hot vector of {size:,} numbers, more than "
            f"{_LARGEST_ONE_HOT:,}; write it as several smaller numbers (MultiDiscrete) or as a Box, or give "
            "a --network of your own."
        )


def load_network(name: str) -> type[keras.layers.Layer]:
    """The class that `--network` names: `module:Class`, or an entry point in the group `seed_rl.networks`.

    It is constructed with the environment's observation spec (a nest of `ArraySpec`) and called with
    observations, a nest of `[N, ...]`. Bools have already been unpacked, and images of uint8 or bool stacked
    over `--frame_stack` frames. It returns features `[N, F]`, float32 or, with `--precision=bfloat16`,
    bfloat16. The last action and reward, the LSTM and the agent's heads follow it as usual.

    Raises:
      ValueError: there is none, or it is not a Keras layer; the message is one sentence.
    """
    location = name
    if ":" not in name:
        installed = entry_points(_ENTRY_POINTS)
        if name not in installed:
            known = f" ({', '.join(sorted(installed))})" if installed else ""
            raise ValueError(
                f"--network={name} is not valid; write module:Class, or the name of an installed "
                f"network{known}."
            )
        location = installed[name]
    found = load_named("network", name, location)
    if not (isinstance(found, type) and issubclass(found, keras.layers.Layer)):
        raise ValueError(
            f"--network={name} is not a subclass of keras.layers.Layer; name one as module:Class."
        )
    return found
