"""The device that the learner names, and its refusal of a CPU, on machines with and without GPUs."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf

from seed_rl.devices import placement, report
from seed_rl.loading import quiet_start

# Output of TensorFlow 2.21 without a driver, without CUDA's libraries, and without a device.
NO_DRIVER = [
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
    "I0000 00:00:1795353969.862148   14202 cudart_stub.cc:31] Could not find cuda drivers on your machine, "
    "GPU will not be used.",
    "I0000 00:00:1795353970.722558   14202 cpu_feature_guard.cc:227] This TensorFlow binary is optimized to "
    "use available CPU instructions in performance-critical operations.",
    "I0000 00:00:1795353974.811831   14202 cudart_stub.cc:31] Could not find cuda drivers on your machine, "
    "GPU will not be used.",
]
NO_LIBRARIES = [
    "W0000 00:00:1795353977.347190   14202 gpu_device.cc:2341] Cannot dlopen some GPU libraries. Please make "
    "sure the missing libraries mentioned above are installed properly if you would like to use GPU.",
    "Skipping registering GPU devices...",
]


@pytest.fixture
def machine(monkeypatch):
    """Sets the names of the GPUs that TensorFlow sees, and whether it was built for any."""

    def set_up(*names, built=True):
        gpus = [tf.config.PhysicalDevice(f"/physical_device:GPU:{i}", "GPU") for i in range(len(names))]
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus if kind == "GPU" else None)
        available = [f"GPU:{i}" for i in range(len(names))] or ["CPU:0"]
        monkeypatch.setattr(placement, "available", lambda: available)
        details = {
            gpu.name: {"device_name": name} if name else {} for gpu, name in zip(gpus, names, strict=True)
        }
        monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda device: details[device.name])
        monkeypatch.setattr(tf.test, "is_built_with_gpu_support", lambda: built)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return set_up


@pytest.mark.parametrize(
    ("names", "chosen", "sentence"),
    [
        ((), (), "Training and inference on CPU:0."),
        (("NVIDIA L4",), (), "Training and inference on GPU:0 (NVIDIA L4)."),
        ((None,), (), "Training and inference on GPU:0."),
        (("L4", "L4", "L4"), (["GPU:1"],), "Training and inference on GPU:1 (L4); not used: GPU:0, GPU:2."),
        (
            ("L4", "A100", "A100", "L4"),
            (["GPU:0", "GPU:1", "GPU:2"], ["GPU:3"], 48),
            "Training on GPU:0 (L4), GPU:1, GPU:2 (A100) (each on 16 of a batch of 48); inference on "
            "GPU:3 (L4).",
        ),
        (("L4",), (["GPU:0"], None), "Training on GPU:0 (L4); inference in the actors."),
    ],
)
def test_the_devices_are_named(machine, names, chosen, sentence):
    machine(*names)
    assert report.describe(*chosen) == sentence


@pytest.mark.parametrize(
    ("log", "built", "visible", "reason"),
    [
        (NO_DRIVER, True, None, "(Could not find cuda drivers on your machine, GPU will not be used)"),
        (NO_LIBRARIES, True, None, "(Cannot dlopen some GPU libraries. Please make sure the missing "),
        (NO_LIBRARIES, True, None, "if you would like to use GPU; Skipping registering GPU devices)"),
        ([], True, None, "unset TF_CPP_MIN_LOG_LEVEL to see one"),
        ([], False, None, "this build of TensorFlow has no support for GPUs"),
        (NO_DRIVER, True, "-1", "CUDA_VISIBLE_DEVICES=-1 hides all of them"),
    ],
)
def test_where_a_gpu_is_required_a_cpu_is_refused_with_the_reason(
    machine, monkeypatch, log, built, visible, reason
):
    machine(built=built)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(ValueError, match=r"^--require_accelerator: TensorFlow sees no GPU \(") as caught:
        report.check(True, log)
    text = str(caught.value)
    assert reason in text and "[gpu]" in text and "\n" not in text


def test_a_gpu_of_the_machine_that_goes_unused_is_a_warning(machine, tmp_path, monkeypatch):
    machine()
    assert report.check(False, NO_LIBRARIES, tmp_path / "no driver") is None
    assert report.check(False, NO_LIBRARIES, tmp_path) is None  # The driver is there, and no GPU.
    (tmp_path / "0000:01:00.0").mkdir()
    assert "Cannot dlopen some GPU libraries" in report.check(False, NO_LIBRARIES, tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert report.check(False, NO_LIBRARIES, tmp_path) is None
    machine("NVIDIA L4")
    assert [report.check(required, NO_DRIVER, tmp_path) for required in (False, True)] == [None, None]


@pytest.mark.slow
@pytest.mark.parametrize(("level", "is_shown"), [(None, False), ("0", True)])
def test_after_the_start_tensorflow_writes_no_news_unless_it_is_asked_to(level, is_shown):
    code = """
import os
from seed_rl.loading import quiet_start
level = os.environ.get("TF_CPP_MIN_LOG_LEVEL")
with quiet_start():
    import tensorflow as tf
    one = tf.constant(1.0)
assert os.environ.get("TF_CPP_MIN_LOG_LEVEL") == level
tf.function(lambda x: 2 * x, jit_compile=True)(one)
"""
    variables = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    variables |= {"TF_CPP_MIN_LOG_LEVEL": level} if level else {}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ("XLA" in done.stderr) == is_shown, done.stderr
    assert is_shown or not done.stderr


def test_what_is_held_back_can_be_read_and_goes_on(capfd):
    with quiet_start() as held:
        os.write(2, b"native\n")
        print("Python", file=sys.__stderr__)
        assert next(held) == "native"
        os.write(2, b"again\n")
        assert list(held) == ["Python"]
    assert "native" not in capfd.readouterr().err
