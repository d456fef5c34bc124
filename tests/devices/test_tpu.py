"""TPUs without one: the refusals, the devices that are hidden, and the cores that train."""

from unittest import mock

import pytest
import tensorflow as tf

from seed_rl.devices import placement, tpu
from seed_rl.devices.placement import Placement, place
from seed_rl.devices.replicas import Replicas


@pytest.fixture
def machine(monkeypatch):
    """A machine whose TPUs have so many cores."""

    def set_up(cores):
        found = [tf.config.PhysicalDevice(f"/physical_device:TPU:{i}", "TPU") for i in range(cores)]
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: found if kind == "TPU" else [])
        names = [f"TPU:{i}" for i in range(cores)]
        monkeypatch.setattr(placement, "_names", lambda kind: names if kind == "TPU" else ["CPU:0"])
        # A board of 2 x 2 chips with 2 cores each.
        coordinates = [[[x, y, 0, core] for y in range(2) for x in range(2) for core in range(2)]]
        topology = tf.tpu.experimental.Topology(mesh_shape=[2, 2, 1, 2], device_coordinates=coordinates)
        initialize = mock.Mock(return_value=topology)
        monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", initialize)
        return initialize

    return set_up


def test_where_there_is_none_it_is_one_sentence(machine):
    initialize = machine(0)
    with pytest.raises(ValueError, match=r"^--accelerator=tpu: TensorFlow sees no TPU; .*\[tpu\].*\.$"):
        tpu.Tpu()
    assert not initialize.called


def test_the_split_is_that_of_other_devices_and_nothing_is_shared(machine):
    machine(8)
    assert place("", "", 48) == Placement(tuple(f"TPU:{i}" for i in range(2, 8)), ("TPU:0", "TPU:1"))
    machine(1)
    only = place("", "", 48)
    assert only == Placement(("TPU:0",), ("TPU:0",))
    assert not only.is_shared and not only.is_default  # Training has variables of its own.


def test_the_chosen_cores_train(machine):
    initialize = machine(8)
    with mock.patch.object(tf.distribute, "TPUStrategy") as strategy:
        replicas = Replicas(("TPU:2", "TPU:5"), jit=True, strategy=tpu.Tpu().strategy(("TPU:2", "TPU:5")))
    assert replicas.count == 2
    assignment = strategy.call_args.kwargs["experimental_device_assignment"]
    assert assignment.core_assignment.tolist() == [[[1, 0, 0, 0]], [[0, 1, 0, 1]]]
    assert initialize.call_count == 1  # A second time would forget all variables.


@pytest.mark.parametrize("cores", [0, 4])
def test_they_are_hidden_from_other_runs(machine, monkeypatch, cores):
    machine(cores)
    visible = mock.Mock()
    monkeypatch.setattr(tf.config, "set_visible_devices", visible)
    tpu.hide()
    assert visible.call_args_list == ([mock.call([], "TPU")] if cores else [])
