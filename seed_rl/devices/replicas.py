"""Data-parallel training: each training device has all variables and a part of the batch."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree
import tensorflow as tf

from seed_rl.devices.placement import is_tpu
from seed_rl.types import Sample

# The dimension that the batch is split along, of each field of a sample.
_BATCH_AXES = (1, 1, 1, 0, 0)


class Replicas:
    """The training devices. With one of them, everything happens there.

    Attributes:
      devices: TensorFlow's names of those of this host, such as `GPU:0`; empty if it places everything as it
        likes.
      count: how many there are, on all hosts.
    """

    def __init__(
        self,
        devices: Sequence[str] = (),
        jit: bool = False,
        strategy: tf.distribute.Strategy | None = None,
        num_hosts: int = 1,
    ):
        """Prepares.

        Args:
          devices: see the attribute.
          jit: whether XLA compiles the step.
          strategy: TensorFlow's, for a TPU's cores (`devices.placement.Tpu`), which it always compiles for,
            and for several hosts with these devices each (`hosts.team`); None: it is made here.
          num_hosts: how many there are.

        Raises:
          ValueError: XLA cannot compile the step of several devices.
        """
        self._num_local = max(1, len(devices))
        self.count = self._num_local * num_hosts
        self.devices = tuple(devices)
        self._jit = jit
        self._strategy: Any = strategy
        if jit and self.count > 1 and not is_tpu(self.devices[0]):
            raise ValueError(
                f"--jit trains on one device, not on {', '.join(devices)}{self._each}; choose one with "
                "--training_devices, or leave out --jit."
            )
        if strategy is None and self.count > 1:
            # NCCL, the default, is for GPUs.
            reduction = None if "GPU" in devices[0] else tf.distribute.ReductionToOneDevice()
            self._strategy = tf.distribute.MirroredStrategy(list(devices), cross_device_ops=reduction)

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Context that the trained variables must be created in."""
        if self._strategy is not None:
            return self._strategy.scope()
        return tf.device(self.devices[0]) if self.devices else contextlib.nullcontext()

    @property
    def _each(self) -> str:
        hosts = self.count // self._num_local
        return f" of each of {hosts} hosts" if hosts > 1 else ""

    def check_batch(self, batch_size: int) -> None:
        """Checks that a batch can be split.

        Raises:
          ValueError: the parts would not be of the same size.
        """
        if batch_size % self.count:
            below, above = (batch_size // self.count + more for more in (0, 1))
            fitting = " or ".join(str(n * self.count) for n in (below, above) if n)
            raise ValueError(
                f"--batch_size={batch_size} cannot be split evenly over {self.count} training devices "
                f"({', '.join(self.devices)}{self._each}); make it a multiple of {self.count}, such as "
                f"{fitting}."
            )

    def distribute(self, sample: Sample) -> Sample:
        """Moves a batch of NumPy arrays to the devices, a part to each."""
        if self._strategy is None:
            with self.scope():
                return optree.tree_map(tf.convert_to_tensor, sample)
        return along_batch(self._split, sample)

    def run(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Calls `step` on each device, with its part of what `distribute` made; use it in a `tf.function`."""
        if self._strategy is not None:
            return self._strategy.run(step, arguments)
        if self._jit:
            step = tf.function(step, jit_compile=True, autograph=False)
        with self.scope():
            return step(*arguments)

    def first(self, values: Any) -> Any:
        """After `run`: a nest of tensors that are the same on all devices."""
        if self._strategy is None:
            return values
        return tf.nest.map_structure(lambda x: self._strategy.experimental_local_results(x)[0], values)

    def join(self, values: Any) -> Any:
        """After `run`: this host's batch of a tensor `[B, ...]` that it returned a part of on each device."""
        if self._strategy is None or values is None:
            return values
        return tf.concat(self._strategy.experimental_local_results(values), 0)

    def _split(self, array: np.ndarray, axis: int) -> Any:
        parts = np.split(array, self._num_local, axis)

        def part(context: Any) -> tf.Tensor:
            index = context.replica_id_in_sync_group % self._num_local
            with tf.device(self.devices[index]):
                return tf.convert_to_tensor(parts[index])

        return self._strategy.experimental_distribute_values_from_function(part)


def along_batch(function: Callable[[np.ndarray, int], Any], sample: Sample) -> Sample:
    """Applies a function to each array of a sample and the dimension of the batch in it."""
    fields = zip(sample, _BATCH_AXES, strict=True)
    return Sample(*(optree.tree_map(lambda x, axis=axis: function(x, axis), field) for field, axis in fields))
