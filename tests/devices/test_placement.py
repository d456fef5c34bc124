import pytest

from seed_rl.devices import placement
from seed_rl.devices.placement import Placement, count_training_gpus, num_training, place, place_on_host


@pytest.fixture
def devices(monkeypatch):
    """Sets which devices there are."""
    return lambda *names: monkeypatch.setattr(placement, "available", lambda: list(names))


def gpus(*numbers):
    return tuple(f"GPU:{number}" for number in numbers)


@pytest.mark.parametrize(
    ("count", "batch_size", "training", "inference"),
    [
        (1, 32, (0,), (0,)),
        (2, 32, (1,), (0,)),
        (3, 32, (1, 2), (0,)),
        (4, 32, (2, 3), (0, 1)),
        (4, 7, (3,), (0, 1, 2)),
        (8, 48, (2, 3, 4, 5, 6, 7), (0, 1)),
        (8, 160, (3, 4, 5, 6, 7), (0, 1, 2)),
        (8, 64, (4, 5, 6, 7), (0, 1, 2, 3)),
    ],
)
def test_by_default_the_most_devices_that_divide_the_batch_train(
    devices, count, batch_size, training, inference
):
    devices(*gpus(*range(count)))
    assert place("", "", batch_size) == Placement(gpus(*training), gpus(*inference))


@pytest.mark.parametrize(
    ("count", "batch_size", "num_hosts", "expected"),
    [
        (8, 48, 2, 6),
        (8, 64, 2, 4),
        (8, 6, 2, 3),
        (8, 3, 2, 1),
        (64, 384, 1, 48),
        (32, 640, 1, 20),
        (1, 5, 1, 1),
    ],
)
def test_all_hosts_share_the_batch(count, batch_size, num_hosts, expected):
    assert num_training(count, batch_size, num_hosts) == expected


@pytest.mark.parametrize(
    ("training", "inference", "expected"),
    [
        ("3", "", Placement(gpus(3), gpus(0, 1, 2))),
        ("0,1,2,3", "", Placement(gpus(0, 1, 2, 3), gpus(0))),
        ("", "2", Placement(gpus(0, 1, 3), gpus(2))),
        ("", "0,1,2,3", Placement(gpus(0, 1, 2, 3), gpus(0, 1, 2, 3))),
        ("0,1", "cpu:0", Placement(gpus(0, 1), ("CPU:0",))),
        ("gpu:1, GPU:2", "3,0", Placement(gpus(1, 2), gpus(3, 0))),
    ],
)
def test_what_is_chosen(devices, training, inference, expected):
    devices(*gpus(0, 1, 2, 3))
    assert place(training, inference, 12) == expected


@pytest.mark.parametrize(
    ("training", "inference", "message"),
    [
        ("4", "", r"--training_devices=4: there is no device 4; choose from GPU:0, GPU:1, CPU:0\."),
        (
            "",
            "TPU:0",
            r"--inference_devices=TPU:0: there is no device TPU:0; choose from GPU:0, GPU:1, CPU:0\.",
        ),
        ("", "/job:worker/task:1/GPU:0", r"there is no device /job:worker/task:1/GPU:0; choose from GPU:0, "),
        ("1,GPU:1", "", r"--training_devices=1,GPU:1 names GPU:1 twice; name each device once\."),
    ],
)
def test_what_is_refused(devices, training, inference, message):
    devices(*gpus(0, 1))
    with pytest.raises(ValueError, match=message):
        place(training, inference, 12)


def test_one_device_that_does_everything_needs_no_copies():
    assert Placement(gpus(0), gpus(0)).is_default
    assert Placement(gpus(1), gpus(1)).is_shared and not Placement(gpus(1), gpus(1)).is_default
    assert not Placement(gpus(0, 1), gpus(0, 1)).is_shared
    assert not Placement(gpus(0), gpus(1)).is_shared


@pytest.mark.parametrize(
    ("count", "training", "inference", "expected"),
    [
        (0, "", "", Placement(("CPU:0",), ("CPU:0",))),
        (1, "", "", Placement(gpus(0), gpus(0))),
        (2, "", "", Placement(gpus(0), gpus(1))),
        (8, "", "", Placement(gpus(0, 1, 2, 3, 4, 5), gpus(6, 7))),
        (4, "", "1,3", Placement(gpus(0, 1), gpus(1, 3))),
        (4, "0,1", "", Placement(gpus(0, 1), gpus(2, 3))),
        (2, "", "cpu:0", Placement(gpus(0, 1), ("CPU:0",))),
    ],
)
def test_each_of_several_hosts_trains_on_its_first_devices(
    devices, monkeypatch, count, training, inference, expected
):
    devices(*(gpus(*range(count)) or ("CPU:0",)))
    monkeypatch.setattr(placement.tf.config, "list_physical_devices", lambda kind: [kind] * count)
    num_gpus = count_training_gpus(training, inference, 48, 2)
    assert place_on_host(training, inference, num_gpus) == expected


def test_a_host_cannot_train_on_other_devices(devices):
    devices(*gpus(0, 1))
    with pytest.raises(
        ValueError,
        match=r"--training_devices=1: of several learner hosts, each trains on its first devices; give GPU:0",
    ):
        place_on_host("1", "", 1)


@pytest.mark.parametrize("error", [None, RuntimeError, ValueError])
def test_gpus_are_shared_with_other_processes(monkeypatch, error):
    """RuntimeError: TensorFlow is in use. ValueError: a device has a limit of its own."""
    shared = []

    def grow(gpu, enable):
        shared.append((gpu, enable))
        if error:
            raise error("too late")

    monkeypatch.setattr(placement.tf.config, "list_physical_devices", {"GPU": ["first", "second"]}.get)
    monkeypatch.setattr(placement.tf.config.experimental, "set_memory_growth", grow)
    placement.share_gpus()
    assert shared == [("first", True), ("second", True)]
