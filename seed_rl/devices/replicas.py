"""Data-parallel training: each training device has all variables and a part of the batch."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree
import tensorflow as tf

from seed_rl.devices.tpu import Tpu
from seed_rl.types import Sample

# The dimension of a sample's arrays that the batch is split along.
_BATCH_AXES = Sample(prev_action=1, env=1, agent=1, initial_state=0, weight=0)


class Replicas:
    """The training devices. With one of them, everything happens there.

    Attributes:
      devices: their names; empty if TensorFlow chooses.
      count: how many there are.
    """

    def __init__(self, devices: Sequence[str] = (), jit: bool = False, tpu: Tpu | None = None):
        """Prepares.

        Args:
          devices: TensorFlow's names, such as `GPU:0`; empty: TensorFlow places everything as it likes.
          jit: whether XLA compiles the step.
          tpu: whose cores the devices are, if they are cores of TPUs.

        Raises:
          ValueError: XLA cannot compile the step of several devices.
        """
        self.count = max(1, len(devices))
        self.devices = tuple(devices)
        self._jit = jit and tpu is None  # A TPU's strategy compiles whatever it runs.
        self._strategy: tf.distribute.Strategy | None = None
        if tpu is not None:
            self._strategy = tpu.strategy(devices)
        elif self.count > 1:
            if jit:
                raise ValueError(
                    f"--jit trains on one device, not on {', '.join(devices)}; choose one with "
                    "--training_devices, or leave out --jit."
                )
            # NCCL, the default, is for GPUs.
            reduction = None if "GPU" in devices[0] else tf.distribute.ReductionToOneDevice()
            self._strategy = tf.distribute.MirroredStrategy(list(devices), cross_device_ops=reduction)

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Where the variables that are trained must be created."""
        if self._strategy is not None:
            return self._strategy.scope()
        return tf.device(self.devices[0]) if self.devices else contextlib.nullcontext()

    def check_batch(self, batch_size: int) -> None:
        """Checks that a batch can be split.

        Raises:
          ValueError: the parts would not be of the same size.
        """
        if batch_size % self.count:
            raise ValueError(
                f"--batch_size={batch_size} cannot be split evenly over {self.count} training devices "
                f"({', '.join(self.devices)}); make it a multiple of {self.count}."
            )

    def distribute(self, sample: Sample) -> Sample:
        """Moves a batch of NumPy arrays to the devices, a part to each."""
        if self._strategy is None:
            with self.scope():
                return optree.tree_map(tf.convert_to_tensor, sample)
        fields = zip(sample, _BATCH_AXES, strict=True)
        return Sample(
            *(optree.tree_map(lambda x, axis=axis: self._split(x, axis), field) for field, axis in fields)
        )

    def run(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Calls `step` on each device, with its part of what `distribute` made; use it in a `tf.function`."""
        if self._strategy is not None:
            return self._strategy.run(step, arguments)
        if self._jit:
            step = tf.function(step, jit_compile=True, autograph=False)
        with self.scope():
            return step(*arguments)

    def mean(self, values: Any) -> Any:
        """After `run`: the means over the devices of a nest of scalars that it returned."""
        if self._strategy is None:
            return values
        mean = tf.distribute.ReduceOp.MEAN
        return tf.nest.map_structure(lambda x: self._strategy.reduce(mean, x, axis=None), values)

    def join(self, values: Any) -> Any:
        """After `run`: the whole batch of a tensor `[B, ...]` that it returned a part of on each device."""
        if self._strategy is None or values is None:
            return values
        return tf.concat(self._strategy.experimental_local_results(values), 0)

    def _split(self, array: np.ndarray, axis: int) -> Any:
        parts = np.split(array, self.count, axis)

        def part(context: Any) -> tf.Tensor:
            index = context.replica_id_in_sync_group
            with tf.device(self.devices[index]):
                return tf.convert_to_tensor(parts[index])

        return self._strategy.experimental_distribute_values_from_function(part)
