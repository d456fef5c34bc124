from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.devices import placement
from seed_rl.devices.placement import Placement, choose_precision, computing_in, num_training, place
from seed_rl.devices.publisher import variables_of
from seed_rl.devices.replicas import Replicas
from seed_rl.metrics import cpu
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.scaling import RunningScale
from seed_rl.networks.stacking import FrameStack
from seed_rl.networks.torsos import PixelConv2D
from seed_rl.networks.trunk import Trunk
from seed_rl.training.export import export_policy
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig
from seed_rl.types import ArraySpec, EnvironmentSpec
from tests.devices.networks import ACTION, CASES, make
from tests.devices.recorded import random_step, samples


@pytest.fixture
def devices(monkeypatch):
    """Sets how many GPUs there are."""

    def set_up(count):
        found = {"GPU": count, "CPU": 1, "TPU": 0}
        monkeypatch.setattr(placement, "_names", lambda kind: [f"{kind}:{i}" for i in range(found[kind])])

    return set_up


def names(text):
    """Devices from numbers of GPUs and from names."""
    return tuple(f"GPU:{word}" if word.isdigit() else word for word in text.split())


HOSTS = {"batch_size": 48, "num_hosts": 2}
IN_ACTORS = {"batch_size": 9, "infers": False}


@pytest.mark.parametrize(
    ("count", "training", "inference", "run", "trains", "acts"),
    [
        # By default, the most devices that divide the batch train.
        (1, "", "", {"batch_size": 32}, "0", "0"),
        (2, "", "", {"batch_size": 32}, "1", "0"),
        (3, "", "", {"batch_size": 32}, "1 2", "0"),
        (4, "", "", {"batch_size": 32}, "2 3", "0 1"),
        (4, "", "", {"batch_size": 7}, "3", "0 1 2"),
        (8, "", "", {"batch_size": 48}, "2 3 4 5 6 7", "0 1"),
        (8, "", "", {"batch_size": 160}, "3 4 5 6 7", "0 1 2"),
        (8, "", "", {"batch_size": 64}, "4 5 6 7", "0 1 2 3"),
        (4, "3", "", {"batch_size": 12}, "3", "0 1 2"),
        (4, "0,1,2,3", "", {"batch_size": 12}, "0 1 2 3", "0"),
        (4, "", "2", {"batch_size": 12}, "0 1 3", "2"),
        (4, "", "0,1,2,3", {"batch_size": 12}, "0 1 2 3", "0 1 2 3"),
        (4, "0,1", "cpu:0", {"batch_size": 12}, "0 1", "CPU:0"),
        (4, "gpu:1, GPU:2", "3,0", {"batch_size": 12}, "1 2", "3 0"),
        # Where actors choose the actions, no device is left to infer.
        (1, "", "", IN_ACTORS, "0", "0"),
        (4, "", "", IN_ACTORS, "0 1 2", "0"),
        (4, "3", "", IN_ACTORS, "3", "3"),
        # Each of several hosts trains on its first devices.
        (0, "", "", HOSTS, "CPU:0", "CPU:0"),
        (1, "", "", HOSTS, "0", "0"),
        (2, "", "", HOSTS, "0", "1"),
        (2, "cpu:0", "", HOSTS, "CPU:0", "0 1"),
        (8, "", "", HOSTS, "0 1 2 3 4 5", "6 7"),
        (4, "", "1,3", HOSTS, "0 1", "1 3"),
        (4, "0,1", "", HOSTS, "0 1", "2 3"),
        (2, "", "cpu:0", HOSTS, "0 1", "CPU:0"),
    ],
)
def test_devices_that_train_and_infer(devices, count, training, inference, run, trains, acts):
    devices(count)
    assert place(training, inference, **run) == Placement(names(trains), names(acts))


@pytest.mark.parametrize(
    ("count", "batch_size", "num_hosts", "expected"),
    [(8, 48, 2, 6), (8, 64, 2, 4), (8, 6, 2, 3), (8, 3, 2, 1), (64, 384, 1, 48), (32, 640, 1, 20)],
)
def test_all_hosts_share_the_batch(count, batch_size, num_hosts, expected):
    assert num_training(count, batch_size, num_hosts) == expected


@pytest.mark.parametrize(
    ("training", "inference", "num_hosts", "message"),
    [
        ("4", "", 1, r"--training_devices=4: there is no device 4; choose from GPU:0, GPU:1, CPU:0\."),
        ("", "TPU:0", 1, "--inference_devices=TPU:0: there is no device TPU:0; choose from GPU:0, "),
        ("", "/job:worker/GPU:0", 1, "there is no device /job:worker/GPU:0; choose from GPU:0, "),
        ("1,GPU:1", "", 1, r"--training_devices=1,GPU:1 names GPU:1 twice; name each device once\."),
        ("1", "", 2, "--training_devices=1: of several .* trains on its first devices; give GPU:0"),
    ],
)
def test_devices_that_are_refused(devices, training, inference, num_hosts, message):
    devices(2)
    with pytest.raises(ValueError, match=message):
        place(training, inference, 12, num_hosts)


def test_one_device_that_does_everything_needs_no_copies():
    for trains, acts, is_default, is_shared in (
        ("0", "0", True, True),
        ("1", "1", False, True),
        ("0 1", "0 1", False, False),
        ("0", "1", False, False),
        ("TPU:0", "TPU:0", False, False),  # Training has variables of its own.
    ):
        found = Placement(names(trains), names(acts))
        assert (found.is_default, found.is_shared) == (is_default, is_shared)


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


B = 4


def in_bfloat16(case):
    with computing_in("bfloat16"):
        return make(case, B)


def act(algorithm, spec):
    """The greedy answer to a random step, and the next state."""
    env = tf.nest.map_structure(tf.constant, random_step(np.random.default_rng(0), spec, B))
    prev_action = tf.zeros([B], tf.int32)
    return algorithm.policy.act_greedy(prev_action, env, algorithm.policy.initial_state(B), tf.range(B))


def products(algorithm, spec):
    """The dtypes of the matrix products and convolutions of acting."""
    graph = tf.function(lambda: act(algorithm, spec), autograph=False).get_concrete_function().graph
    ops = [op for op in graph.get_operations() if op.type in ("MatMul", "Conv2D", "BatchMatMulV2")]
    return [op.inputs[0].dtype for op in ops]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_only_the_inside_of_the_network_is_bfloat16(case):
    spec, algorithm = CASES[case][1], in_bfloat16(case)
    inside = products(algorithm, spec)
    assert inside.count(tf.bfloat16) >= 2 and inside.count(tf.float32) == 2, inside  # The two last layers.
    assert set(products(make(case, B), spec)) == {tf.float32}
    output, state = act(algorithm, spec)
    for leaf in tf.nest.flatten((output.info, state)):
        assert leaf.dtype in (tf.float32, tf.uint8)
    # Close to float32, and not the same.
    exact, _ = act(make(case, B), spec)
    for one, other in zip(tf.nest.flatten(output.info), tf.nest.flatten(exact.info), strict=True):
        np.testing.assert_allclose(one, other, atol=0.05 * float(tf.reduce_max(tf.abs(other))) + 1e-3)
        assert (one.numpy() != other.numpy()).any()
    floats = {"float32", "float64", "int64"}  # float64: the count of statistics.
    assert {keras.backend.standardize_dtype(v.dtype) for v in variables_of(algorithm)} <= floats


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_losses_priorities_and_optimizer_are_float32(case):
    algorithm = in_bfloat16(case)
    (batch,) = samples(algorithm, CASES[case][1], B, 1)
    trainer = Trainer(algorithm, TrainerConfig(batch_size=B))
    before = [tf.convert_to_tensor(variable).numpy() for variable in variables_of(algorithm)]
    sample = Replicas().distribute(batch)
    losses = algorithm.losses(sample)
    tensors = [*losses.by_objective.values(), *losses.metrics.values(), losses.priority]
    assert {x.dtype for x in tensors if x is not None} == {tf.float32}
    output = trainer.update(sample, 0.0)
    assert all(np.isfinite(x.numpy()) for x in output.metrics.values())
    assert {x.dtype for x in output.metrics.values()} == {tf.float32}
    for variable in variables_of(trainer.optimizers["loss"]):
        assert keras.backend.standardize_dtype(variable.dtype) in ("float32", "int64")
    assert any((v.numpy() != b).any() for v, b in zip(variables_of(algorithm), before, strict=True))


@pytest.mark.parametrize(
    ("setting", "gpus", "flags", "chosen"),
    [
        ("float32", 0, "avx512_bf16", ("float32", "")),
        ("bfloat16", 0, "avx2", ("bfloat16", "")),
        ("auto", 0, "avx2 avx512f", ("float32", "this processor has no instructions for bfloat16")),
        ("auto", 0, "avx512_bf16 avx2", ("bfloat16", "this processor has avx512_bf16")),
        ("auto", 0, "avx512_bf16 amx_bf16", ("bfloat16", "this processor has amx_bf16")),
        ("auto", 1, "avx512_bf16", ("float32", "there is an accelerator")),
        ("auto", 0, None, ("float32", "this processor has no instructions for bfloat16")),
    ],
)
def test_auto_is_bfloat16_where_a_processor_that_has_it_computes(
    devices, monkeypatch, tmp_path, setting, gpus, flags, chosen
):
    devices(gpus)
    monkeypatch.setattr(cpu, "_CPU_INFO", tmp_path / "cpuinfo")
    if flags is not None:
        (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags\t\t: fpu {flags} sse\n\nprocessor : 1\n")
    assert choose_precision(setting) == chosen
    with computing_in(setting):
        assert keras.config.dtype_policy().compute_dtype == chosen[0]


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_frames_keep_all_their_bits_in_bfloat16(dtype):
    """A pixel that differs by 1 from a bright mean that is not whole changes the features as in float32."""
    found = {}
    rng = np.random.default_rng(0)
    frames = (200 + rng.integers(0, 2, (40, 84, 84))).astype(dtype)
    spec = ArraySpec((84, 84), "uint8", (0,), (255,)) if dtype == "uint8" else ArraySpec((84, 84), dtype)
    for precision in ("float32", "bfloat16"):
        keras.utils.set_random_seed(0)
        with computing_in(precision):
            scale = RunningScale(spec, FrameStack(1, spec))
            layer = PixelConv2D(scale, 8, 8, 4)
            scale.update(tf.constant(frames))
        found[precision] = tf.cast(layer(tf.constant(frames[..., np.newaxis])), tf.float32).numpy()
    error = np.abs(found["bfloat16"] - found["float32"])
    assert error.max() < 0.02 * np.abs(found["float32"]).max()


@pytest.mark.parametrize("spec", [ArraySpec((3,), "float32"), ArraySpec((4, 4, 1), "float32")])
def test_normalization_is_in_float32(spec):
    """Numbers that are equal in bfloat16, 1000 and 1001, differ after normalization."""
    config = NetworkConfig(torso="auto", normalize_observations=True, lstm_size=0, mlp_sizes="8")
    if len(spec.shape) == 3:
        config = NetworkConfig(torso="minatar", normalize_observations=True, lstm_size=0)
    with computing_in("bfloat16"):
        keras.utils.set_random_seed(0)
        trunk = Trunk(config, EnvironmentSpec(spec, ACTION))
        prev_action, env, state = trunk.example()
        trunk.unroll(prev_action, env, state)
    rng = np.random.default_rng(0)
    observations = tf.constant(1000.0 + rng.integers(0, 2, (1, 50, *spec.shape)), tf.float32)
    trunk.observe(env._replace(observation=observations))

    def features(value):
        observation = tf.fill([1, 1, *spec.shape], value)
        return trunk.unroll(prev_action, env._replace(observation=observation), state)[0].numpy()

    low, high = features(1000.0), features(1001.0)
    assert np.abs(low - high).max() > 0.3


@pytest.mark.slow
def test_a_checkpoint_fits_any_precision_and_the_exported_policy_answers(tmp_path):
    case, spec = "r2d2-lstm", CASES["r2d2-lstm"][1]
    trained, other = in_bfloat16(case), make(case, B)
    for variable in variables_of(trained):
        variable.assign(variable + 0.01)
    path = tf.train.Checkpoint(algorithm=trained).write(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(algorithm=other).read(path).assert_consumed()
    for one, two in zip(variables_of(trained), variables_of(other), strict=True):
        np.testing.assert_array_equal(one, two)
    export_policy(trained.policy, spec, str(tmp_path / "saved_model"))
    loaded, (expected, _) = tf.saved_model.load(str(tmp_path / "saved_model")), act(trained, spec)
    env = tf.nest.map_structure(tf.constant, random_step(np.random.default_rng(0), spec, B))
    found, _ = loaded.act(tf.zeros([B], tf.int32), env, loaded.initial_state(B), tf.range(B))
    # A graph rounds in other places than single operations do.
    np.testing.assert_allclose(found.info["q_values"], expected.info["q_values"], rtol=0.05, atol=0.05)


@pytest.fixture
def machine(monkeypatch):
    """Sets up a machine whose TPUs have this number of cores."""

    def set_up(cores):
        found = [tf.config.PhysicalDevice(f"/physical_device:TPU:{i}", "TPU") for i in range(cores)]
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: found if kind == "TPU" else [])
        monkeypatch.setattr(tf.config, "get_visible_devices", tf.config.list_physical_devices)
        monkeypatch.setattr(tf.config, "list_logical_devices", tf.config.list_physical_devices)
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
        placement.Tpu()
    assert not initialize.called


def test_the_cores_are_split_as_other_devices_are(machine):
    machine(8)
    assert place("", "", 48) == Placement(tuple(f"TPU:{i}" for i in range(2, 8)), ("TPU:0", "TPU:1"))


def test_the_chosen_cores_train(machine):
    initialize = machine(8)
    with mock.patch.object(tf.distribute, "TPUStrategy") as strategy:
        replicas = Replicas(
            ("TPU:2", "TPU:5"), jit=True, strategy=placement.Tpu().strategy(("TPU:2", "TPU:5"))
        )
    assert replicas.count == 2
    assignment = strategy.call_args.kwargs["experimental_device_assignment"]
    assert assignment.core_assignment.tolist() == [[[1, 0, 0, 0]], [[0, 1, 0, 1]]]
    assert initialize.call_count == 1  # A second time would forget all variables.


@pytest.mark.parametrize("cores", [0, 4])
def test_they_are_hidden_from_other_runs(machine, monkeypatch, cores):
    machine(cores)
    visible = mock.Mock()
    monkeypatch.setattr(tf.config, "set_visible_devices", visible)
    placement.hide_tpus()
    assert visible.call_args_list == ([mock.call([], "TPU")] if cores else [])
