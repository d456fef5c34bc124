"""Divides a learner's devices between training and inference (SEED RL, section 3.1)."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from seed_rl.devices.tpu import is_tpu


class Placement(NamedTuple):
    """TensorFlow's names of devices, such as `GPU:0`.

    training: those that train, each on a part of the batch.
    inference: those that infer, each for a part of the environments.
    """

    training: tuple[str, ...]
    inference: tuple[str, ...]

    @property
    def is_default(self) -> bool:
        """Whether the one device is the first, where TensorFlow places everything by itself."""
        return self.is_shared and self.training[0].endswith(":0")

    @property
    def is_shared(self) -> bool:
        """Whether one device does everything, so that acting and training can use the same variables.

        Never on a TPU, where training's variables belong to its strategy.
        """
        one = self.training == self.inference and len(self.training) == 1
        return one and not is_tpu(self.training[0])


def split_cpu(num_logical_devices: int) -> None:
    """Makes TensorFlow show this machine's CPU as several devices, for tests and demonstrations.

    Raises:
      RuntimeError: TensorFlow is in use already.
    """
    (cpu,) = tf.config.list_physical_devices("CPU")
    devices = [tf.config.LogicalDeviceConfiguration()] * num_logical_devices
    tf.config.set_logical_device_configuration(cpu, devices)


def place(training: str, inference: str) -> Placement:
    """Reads `--training_devices` and `--inference_devices`; empty ones get the default.

    By default, a single device does both. Of two or three, the first one infers and the others train; of
    four or more, the first quarter infers.

    Args:
      training: numbers or names, separated by commas.
      inference: the same.

    Raises:
      ValueError: a device does not exist, or is named twice.
    """
    devices = available()
    chosen_to_train = _parse("training_devices", training, devices)
    chosen_to_infer = _parse("inference_devices", inference, devices)
    if not chosen_to_infer:
        rest = [device for device in devices if device not in chosen_to_train] or list(chosen_to_train)
        chosen_to_infer = tuple(rest[: max(1, len(devices) // 4)])  # 2 of the 8 cores of the paper's TPU.
    if not chosen_to_train:
        chosen_to_train = tuple(d for d in devices if d not in chosen_to_infer) or chosen_to_infer
    return Placement(chosen_to_train, chosen_to_infer)


def available() -> list[str]:
    """The devices that a learner uses by default: the cores of TPUs that have been initialized, or all GPUs.

    The CPU if there are none, or if it is split.
    """
    tpus, gpus, cpus = (_names(kind) for kind in ("TPU", "GPU", "CPU"))
    if tpus:
        return tpus
    return gpus if gpus and len(cpus) == 1 else cpus


def _names(kind: str) -> list[str]:
    return [":".join(device.name.split(":")[-2:]) for device in tf.config.list_logical_devices(kind)]


def _parse(flag: str, text: str, devices: Sequence[str]) -> tuple[str, ...]:
    names = []
    everything = [*devices, *(name for name in _names("CPU") if name not in devices)]
    for word in filter(None, (part.strip() for part in text.split(","))):
        name = word.upper()
        if word.isdigit():  # A number is that of a default device; the CPU beside GPUs has its name only.
            name = next((device for device in devices if device.endswith(f":{word}")), word)
        if name not in everything:
            raise ValueError(
                f"--{flag}={text}: there is no device {word}; choose from {', '.join(everything)}."
            )
        if name in names:
            raise ValueError(f"--{flag}={text} names {name} twice; name each device once.")
        names.append(name)
    return tuple(names)
