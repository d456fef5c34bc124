"""Masks in logits and values; tests/algorithms/test_every_algorithm.py has what follows from them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.action_mask import FORBIDDEN, ActionMask, without_mask
from seed_rl.networks.actor_critic import ActorCritic, PolicyNetwork
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.q_network import Head, QNetwork
from seed_rl.types import ArraySpec, EnvironmentSpec
from tests.algorithms.q_learning import VECTOR, random_env

T, B, A = 4, 50, 11
ACTION = ArraySpec((), "int32", (0,), (A - 1,))
PACKED = {"action_mask": ArraySpec.packed((A,)), "observation": VECTOR}
SPEC = EnvironmentSpec(PACKED, ACTION)


def random_masks(*leading, seed=0):
    rng = np.random.default_rng(seed)
    masks = rng.random((*leading, A)) < 0.4
    np.put_along_axis(masks, rng.integers(0, A, (*leading, 1)), True, -1)
    return masks


def steps_with(masks):
    env = random_env(np.random.default_rng(1), masks.shape[:-1], VECTOR)
    observation = {"action_mask": np.packbits(masks, -1), "observation": env.observation}
    return tf.nest.map_structure(tf.constant, env._replace(observation=observation))


@pytest.mark.parametrize("dtype", ["packed", "bool", "int8", "float32"])
def test_a_mask_of_any_dtype_is_found(dtype):
    masks = random_masks(B)
    leaf = ArraySpec.packed((A,)) if dtype == "packed" else ArraySpec((A,), dtype)
    array = np.packbits(masks, -1) if dtype == "packed" else masks.astype(dtype)
    mask = ActionMask(EnvironmentSpec({**PACKED, "action_mask": leaf}, ACTION))
    np.testing.assert_array_equal(mask.of({"action_mask": tf.constant(array)}), masks)


@pytest.mark.parametrize("spec", [VECTOR, {"observation": VECTOR}])
def test_without_a_mask_nothing_is_computed(spec):
    mask, values = ActionMask(EnvironmentSpec(spec, ACTION)), tf.zeros([B, A])
    assert mask.of({}) is None and mask.apply(values, {}) is values
    assert without_mask(spec) == spec
    assert without_mask(PACKED) == {"observation": VECTOR}
    alone = {"action_mask": ArraySpec((A,), "bool")}
    assert without_mask(alone) == alone


@pytest.mark.parametrize(
    ("leaf", "action"),
    [
        (ArraySpec((A + 1,), "int8"), ACTION),
        (ArraySpec((1, A), "int8"), ACTION),
        (ArraySpec.packed((A - 1,)), ACTION),
        ({"inner": ArraySpec((A,), "int8")}, ACTION),
        (ArraySpec((A,), "int8"), ArraySpec((A,), "float32")),
    ],
)
def test_an_observation_of_that_name_that_is_no_mask_is_refused(leaf, action):
    spec = EnvironmentSpec({"action_mask": leaf, "observation": VECTOR}, action)
    with pytest.raises(ValueError, match=r"^The observation 'action_mask' is .* give it another name\.$"):
        ActionMask(spec)


def test_a_mask_that_allows_nothing_counts_as_one_that_allows_everything():
    masks = np.array([[False] * A, [True] + [False] * (A - 1)])
    allowed = ActionMask(SPEC).of({"action_mask": tf.constant(np.packbits(masks, -1))})
    assert allowed[0].numpy().all() and allowed[1].numpy().tolist() == masks[1].tolist()


def outputs_of(name, env):
    """Outputs of a network for each action, `[T, B, A]`."""
    config = NetworkConfig(mlp_sizes="8", lstm_size=4)
    prev_action = tf.zeros(env.reward.shape, tf.int32)
    keras.utils.set_random_seed(0)
    if name == "q":
        network = QNetwork(config, SPEC, A, Head())
        return network.unroll(prev_action, env, network.trunk.initial_state(B))[0].numpy()
    network = (ActorCritic if name == "actor-critic" else PolicyNetwork)(config, SPEC, A)
    found, _ = network.unroll(prev_action, env, network.trunk.initial_state(B))
    return (found.policy_parameters if name == "actor-critic" else found).numpy()


@pytest.mark.parametrize("name", ["actor-critic", "policy", "q"])
def test_networks_mask_each_step_and_see_no_mask(name):
    masks = random_masks(T, B)
    found, everything = (outputs_of(name, steps_with(x)) for x in (masks, np.ones_like(masks)))
    assert np.abs(everything).max() < 1e4
    np.testing.assert_array_equal(found, np.where(masks, everything, np.float32(FORBIDDEN)))
