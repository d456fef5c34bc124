"""bfloat16 inside the network, float32 everywhere else."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.devices.precision import computing_in
from seed_rl.devices.publisher import variables_of
from seed_rl.devices.replicas import Replicas
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.trunk import Trunk
from seed_rl.training.export import export_policy
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig
from seed_rl.types import ArraySpec, EnvironmentSpec
from tests.devices.networks import ACTION, CASES, make
from tests.devices.recorded import random_step, samples

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


@pytest.mark.parametrize("spec", [ArraySpec((3,), "float32"), ArraySpec((4, 4, 1), "float32")])
def test_normalization_is_in_float32(spec):
    """Numbers that bfloat16 cannot tell apart, 1000 and 1001, are apart after normalization."""
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
