"""The device for training and inference, and TensorFlow's reason if it is not a GPU."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

import tensorflow as tf

# Match the lines of TensorFlow's native log that concern GPUs, and the prefix of each line.
_ABOUT_GPUS = re.compile(r"cuda|cudnn|\bGPU|dlopen|dlerror|dynamic librar", re.IGNORECASE)
_LOG_PREFIX = re.compile(r"^[IWEF]\d{4} .*?\] |^\d{4}-\d\d-\d\d \S+ [IWEF] \S+\] ")

# Where Linux lists the GPUs of NVIDIA's driver.
_DRIVER = Path("/proc/driver/nvidia/gpus")


def describe() -> str:
    """The device that training and inference use, such as `CPU:0` or `GPU:0 (NVIDIA L4)`."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return "CPU:0"
    name = tf.config.experimental.get_device_details(gpus[0]).get("device_name")
    others = f"; {len(gpus) - 1} of {len(gpus)} GPUs are not used" if len(gpus) > 1 else ""
    return "GPU:0" + (f" ({name})" if name else "") + others


def check(require_accelerator: bool, log: Iterable[str], driver: Path = _DRIVER) -> str | None:
    """Checks whether TensorFlow can use a GPU.

    Args:
      require_accelerator: whether a GPU is required.
      log: the lines that TensorFlow has written to standard error. They are read after the check, because
        importing TensorFlow and the check itself add to them.
      driver: the directory with an entry for each GPU of this machine.

    Returns:
      A warning if this machine has a GPU that TensorFlow does not see; None if all is well.

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
    """Why TensorFlow sees no GPU, in its own words if it gives a reason."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={visible} hides all of them"
    if not tf.test.is_built_with_gpu_support():
        return "this build of TensorFlow has no support for GPUs"
    texts = [_LOG_PREFIX.sub("", line).strip().rstrip(".") for line in log if _ABOUT_GPUS.search(line)]
    return "; ".join(dict.fromkeys(texts)) or "it gives no reason; unset TF_CPP_MIN_LOG_LEVEL to see one"
