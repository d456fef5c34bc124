"""Divides a learner's devices between training and inference (SEED RL, section 3); their precision; TPUs."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from seed_rl.metrics.cpu import bfloat16_instructions


def is_tpu(device: str) -> bool:
    """Whether TensorFlow's name of a device, such as `TPU:0`, is that of a TPU's core."""
    return device.startswith("TPU")


def hide_tpus() -> None:
    """Keeps TensorFlow from using TPUs, which need `connect`; must be called before it is used."""
    if tf.config.list_physical_devices("TPU"):
        tf.config.set_visible_devices([], "TPU")


class Tpu:
    """This machine's TPUs, after their initialization. None was available: see docs/accelerators.md."""

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


def share_gpus() -> None:
    """Lets TensorFlow take memory of GPUs only as it needs it, so that others can use them as well."""
    for gpu in tf.config.list_physical_devices("GPU"):
        with contextlib.suppress(RuntimeError, ValueError):  # TensorFlow is in use already.
            tf.config.experimental.set_memory_growth(gpu, True)


def split_cpu(num_logical_devices: int) -> None:
    """Makes TensorFlow show this machine's CPU as several devices, for tests and demonstrations.

    Raises:
      RuntimeError: TensorFlow is in use already.
    """
    (cpu,) = tf.config.list_physical_devices("CPU")
    devices = [tf.config.LogicalDeviceConfiguration()] * num_logical_devices
    tf.config.set_logical_device_configuration(cpu, devices)


def place(
    training: str, inference: str, batch_size: int, num_hosts: int = 1, infers: bool = True
) -> Placement:
    """Reads `--training_devices` and `--inference_devices`; empty ones get the default.

    By default, a single device does both. Of several, the last ones train (see `num_training`). If one flag
    is given, the devices that it does not name do the other work. Both flags have numbers or names, separated
    by commas. If there are several hosts, TensorFlow trains on the first devices of each; it is not in use
    yet, since the hosts have to be connected before.

    Args:
      training: the value of `--training_devices`.
      inference: the value of `--inference_devices`.
      batch_size: that of all hosts.
      num_hosts: learner hosts, with the same number of devices each.
      infers: whether a device is needed to infer; else actors choose the actions.

    Raises:
      ValueError: a device does not exist, is named twice, or cannot train.
    """
    devices, are_first = available(), num_hosts > 1 or not infers
    trains = _parse("training_devices", training, devices)
    acts = _parse("inference_devices", inference, devices)
    if not trains and acts:
        trains = tuple(device for device in devices if device not in acts) or acts
    count = len(trains) or num_training(len(devices), batch_size, num_hosts, infers)
    if not trains:
        trains = tuple(devices[:count] if are_first else devices[-count:])
    if num_hosts > 1:
        first = ("CPU:0",) if trains[0].startswith("CPU") else tuple(devices[:count])
        if training and trains != first:
            raise ValueError(
                f"--training_devices={training}: of several learner hosts, each trains on its first devices; "
                f"give {','.join(first)}, or nothing."
            )
        trains = first
    rest = tuple(device for device in devices if infers and device not in trains)
    return Placement(trains, acts or rest or trains[:1])


def available() -> list[str]:
    """The devices that a learner uses by default: the cores of TPUs that have been initialized, or all GPUs.

    The CPU if there are none, or if it is split.
    """
    tpus, gpus, cpus = (_names(kind) for kind in ("TPU", "GPU", "CPU"))
    if tpus:
        return tpus
    return gpus if gpus and len(cpus) == 1 else cpus


def num_training(num_devices: int, batch_size: int, num_hosts: int = 1, infers: bool = True) -> int:
    """Number of a host's devices that train by default.

    It is the largest number that divides the batch, with the same number on each host, and leaves a device
    to infer, if one `infers`. For Table 1 of the SEED RL paper: 6 of 8 for a batch of 48, and 5 of 8 for 160.
    """
    most = num_devices - infers
    fitting = [n for n in range(1, most + 1) if batch_size % (n * num_hosts) == 0]
    return max(fitting, default=1)


def _names(kind: str) -> list[str]:
    """This host's devices of a kind. TPUs show their cores once they are initialized."""
    devices = tf.config.get_visible_devices(kind)
    if kind == "TPU":
        count = len(tf.config.list_logical_devices(kind)) if devices else 0
    else:
        count = sum(len(tf.config.get_logical_device_configuration(device) or "1") for device in devices)
    return [f"{kind}:{i}" for i in range(count)]


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


_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def choose_precision(setting: str) -> tuple[str, str]:
    """`float32` or `bfloat16` for a value of `--precision`, and the reason in words, empty if it was given.

    With `auto`, it is bfloat16 if there is no accelerator and the processor has instructions for it.
    """
    if setting != "auto":
        return setting, ""
    if not all(device.startswith("CPU") for device in available()):
        return "float32", "there is an accelerator"
    found = bfloat16_instructions()
    reason = f"this processor has {found}" if found else "this processor has no instructions for bfloat16"
    return "bfloat16" if found else "float32", reason


@contextlib.contextmanager
def computing_in(precision: str) -> Iterator[None]:
    """Keras layers that are created inside compute in this precision (`--precision`), for good.

    Their variables are float32 in either case, so checkpoints fit any precision.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(_POLICIES[choose_precision(precision)[0]])
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
