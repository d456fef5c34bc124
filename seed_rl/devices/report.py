"""Report on a learner's devices, with TensorFlow's reason if none of them is a GPU."""

import itertools
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import tensorflow as tf

from seed_rl.devices import placement

# Match the lines of TensorFlow's native log that concern GPUs, and the prefix of each line.
_ABOUT_GPUS = re.compile(r"cuda|cudnn|\bGPU|dlopen|dlerror|dynamic librar", re.IGNORECASE)
_LOG_PREFIX = re.compile(r"^[IWEF]\d{4} .*?\] |^\d{4}-\d\d-\d\d \S+ [IWEF] \S+\] ")

# Linux's list of the GPUs of NVIDIA's driver.
_DRIVER = Path("/proc/driver/nvidia/gpus")


def describe(
    training: Sequence[str] = (), inference: Sequence[str] | None = (), batch_size: int | None = None
) -> str:
    """One sentence on the devices that are used.

    Those that train have TensorFlow's names; by default it is the first GPU or the CPU, which also infers.
    `batch_size` is that of this host. `inference` is None if actors choose the actions.
    """
    available = placement.available()
    used = {*(training or available[:1]), *(inference or ())}
    left = [device for device in available if device not in used]
    others = f"; not used: {', '.join(left)}" if left else ""
    trains = _listed(training or available[:1])
    if inference is not None and not inference:
        return f"Training and inference on {trains}{others}."
    if batch_size is not None and len(training) > 1:
        trains += f" (each on {batch_size // len(training)} of a batch of {batch_size})"
    infers = "in the actors" if inference is None else f"on {_listed(inference)}"
    return f"Training on {trains}; inference {infers}{others}."


def _listed(devices: Sequence[str]) -> str:
    """Names with models; the model of several that follow one another is named once."""
    return ", ".join(", ".join(run) + model for model, run in itertools.groupby(devices, _model))


def _model(device: str) -> str:
    """The model of a GPU, such as ` (NVIDIA L4)`; empty if it is unknown."""
    kind, number = device.split(":")
    found = tf.config.list_physical_devices("GPU") if kind == "GPU" else []
    if int(number) >= len(found):
        return ""
    model = tf.config.experimental.get_device_details(found[int(number)]).get("device_name")
    return f" ({model})" if model else ""


def check(require_accelerator: bool, log: Iterable[str], driver: Path = _DRIVER) -> str | None:
    """A warning if this machine has a GPU that TensorFlow does not detect; None if all is well.

    Args:
      require_accelerator: whether a GPU is required.
      log: the lines that TensorFlow has written to standard error. They are read after the check, because
        importing TensorFlow and the check itself add to them.
      driver: the directory with an entry for each GPU of this machine.

    Raises:
      ValueError: a GPU is required, and there is none.
    """
    if tf.config.list_physical_devices("GPU"):
        return None
    remedy = "install NVIDIA's driver and the extra [gpu]"
    if require_accelerator:
        raise ValueError(
            f"--require_accelerator: TensorFlow sees no GPU ({_reason(log)}); {remedy}, or train on the CPU "
            "with --norequire_accelerator."
        )
    is_hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    if is_hidden or not (driver.is_dir() and any(driver.iterdir())):
        return None
    return (
        f"this machine has a GPU that TensorFlow does not see ({_reason(log)}), so training and inference "
        f"run on the CPU; {remedy}."
    )


def _reason(log: Iterable[str]) -> str:
    """Reason that TensorFlow detects no GPU, in its own words if it gives one."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={visible} hides all of them"
    if not tf.test.is_built_with_gpu_support():
        return "this build of TensorFlow has no support for GPUs"
    texts = [_LOG_PREFIX.sub("", line).strip().rstrip(".") for line in log if _ABOUT_GPUS.search(line)]
    return "; ".join(dict.fromkeys(texts)) or "it gives no reason; unset TF_CPP_MIN_LOG_LEVEL to see one"
