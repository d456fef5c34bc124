"""Cloud TPUs, as far as they differ from other devices. None was available: see docs/accelerators.md."""

from collections.abc import Sequence

import tensorflow as tf


def is_tpu(device: str) -> bool:
    """Whether TensorFlow's name of a device, such as `TPU:0`, is that of a TPU's core."""
    return device.startswith("TPU")


def hide() -> None:
    """Keeps TensorFlow from using TPUs, which need `connect`; must be called before it is used."""
    if tf.config.list_physical_devices("TPU"):
        tf.config.set_visible_devices([], "TPU")


class Tpu:
    """This machine's TPUs, after their initialization."""

    def __init__(self) -> None:
        """Initializes them; from then on, TensorFlow lists their cores as `TPU:0`, `TPU:1`, and so on.

        Raises:
          ValueError: TensorFlow detects none.
        """
        if not tf.config.list_physical_devices("TPU"):
            raise ValueError(
                "--accelerator=tpu: TensorFlow sees no TPU; run the learner on a TPU VM with the extra "
                "[tpu], or leave out --accelerator."
            )
        self._resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
        self._topology = tf.tpu.experimental.initialize_tpu_system(self._resolver)

    def strategy(self, devices: Sequence[str]) -> tf.distribute.Strategy:
        """The strategy that trains on these cores, by TensorFlow's names, such as `TPU:2`."""
        (coordinates,) = self._topology.device_coordinates  # One host.
        replicas = [[coordinates[int(device.split(":")[1])]] for device in devices]
        assignment = tf.tpu.experimental.DeviceAssignment(self._topology, replicas)
        return tf.distribute.TPUStrategy(self._resolver, experimental_device_assignment=assignment)
