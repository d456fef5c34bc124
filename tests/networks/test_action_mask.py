"""Masks in logits and values, and what follows from masked logits."""

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from seed_rl.networks.action_mask import FORBIDDEN, ActionMask, without_mask
from seed_rl.networks.actor_critic import ActorCritic, PolicyNetwork
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.q_network import Head, QNetwork
from seed_rl.ops.distributions import Categorical
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput

T, B, A = 4, 50, 11
ACTION = ArraySpec((), "int32", (0,), (A - 1,))
VECTOR = ArraySpec((3,), "float32")
PACKED = {"action_mask": ArraySpec.packed((A,)), "observation": VECTOR}
SPEC = EnvironmentSpec(PACKED, ACTION)


def random_masks(*leading, seed=0):
    rng = np.random.default_rng(seed)
    masks = rng.random((*leading, A)) < 0.4
    np.put_along_axis(masks, rng.integers(0, A, (*leading, 1)), True, -1)
    return masks


def random_env(masks):
    rng, shape = np.random.default_rng(1), masks.shape[:-1]
    observation = {
        "action_mask": np.packbits(masks, -1),
        "observation": rng.normal(size=(*shape, 3)).astype(np.float32),
    }
    arrays = EnvOutput(np.zeros(shape, np.float32), np.zeros(shape, bool), np.zeros(shape, bool), observation)
    return tf.nest.map_structure(tf.constant, arrays)


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
    assert without_mask(spec) is spec or without_mask(spec) == spec


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


def test_what_a_network_sees_is_all_but_the_mask_unless_there_is_nothing_else():
    assert without_mask(PACKED) == {"observation": VECTOR}
    assert without_mask(VECTOR) == VECTOR
    alone = {"action_mask": ArraySpec((A,), "bool")}
    assert without_mask(alone) == alone


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
    found, everything = (outputs_of(name, random_env(x)) for x in (masks, np.ones_like(masks)))
    assert np.abs(everything).max() < 1e4
    np.testing.assert_array_equal(found, np.where(masks, everything, np.float32(FORBIDDEN)))


def test_distributions_of_masked_logits_against_numpy():
    """Probabilities of forbidden actions are 0, and what is forbidden counts nowhere."""
    masks, rng = random_masks(B), np.random.default_rng(2)
    raw = rng.normal(size=(2, B, A)) * 3
    logits, other = (tf.constant(np.where(masks, x, FORBIDDEN), tf.float32) for x in raw)
    distribution, action = Categorical(ACTION), np.where(masks, rng.random(masks.shape), -1).argmax(-1)
    rows = range(B)
    log_p, log_q = ([scipy.special.log_softmax(x[b][masks[b]]) for b in rows] for x in raw)
    place = [masks[b, : action[b]].sum() for b in rows]
    expected = {
        "log_prob": [log_p[b][place[b]] for b in rows],
        "entropy": [-(np.exp(log_p[b]) * log_p[b]).sum() for b in rows],
        "kl": [(np.exp(log_p[b]) * (log_p[b] - log_q[b])).sum() for b in rows],
    }
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([logits, other])
        found = {
            "log_prob": distribution.log_prob(logits, tf.constant(action, tf.int32)),
            "entropy": distribution.entropy(logits),
            "kl": distribution.kl(logits, other),
        }
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-5, err_msg=name)
        gradient = tape.gradient(found[name], logits).numpy()
        assert np.isfinite(gradient).all() and np.abs(gradient[masks]).max() > 0
        assert (gradient[~masks] == 0).all(), name
    assert (tf.nn.softmax(logits).numpy()[~masks] == 0).all()
    sampled = np.array([distribution.sample(logits) for _ in range(200)])
    drawn = np.zeros_like(masks)
    drawn[np.arange(B), sampled] = True
    assert not (drawn & ~masks).any()
    assert np.take_along_axis(masks, distribution.mode(logits).numpy()[:, None], -1).all()
