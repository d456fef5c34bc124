"""Properties of every algorithm in the registry."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms import registry
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput

B = 3
SPEC = EnvironmentSpec(ArraySpec((6,), "float32"), ArraySpec((), "int32", (0,), (3,)))


def make(name):
    """An algorithm with as many parts as its settings have."""
    keras.utils.set_random_seed(0)
    config_class = registry.config_class(name)
    wanted = {"mlp_sizes": "8", "head_size": 8, "target_entropy": 1.0, "normalize_rewards": True}
    wanted |= {"normalize_observations": True} | ({} if name in ("dqn", "sac") else {"lstm_size": 8})
    known = {leaf.name for leaf in config_class.leaves()}
    options = {option: value for option, value in wanted.items() if option in known}
    return registry.make(name, config_class.of(**options), SPEC, B)


def variables(algorithm):
    """All variables of the algorithm, its networks and whatever else it holds, by name."""
    found = {}
    for name, value in vars(algorithm).items():
        parts = [value] if isinstance(value, tf.Variable) else getattr(value, "variables", ())
        found |= {f"{name} {number}": variable for number, variable in enumerate(parts)}
    return found


@pytest.mark.parametrize("name", registry.names())
def test_a_checkpoint_holds_every_variable(name, tmp_path):
    algorithm, other = make(name), make(name)
    saved, restored = variables(algorithm), variables(other)
    assert len(saved) > 5
    for number, variable in enumerate(saved.values()):
        variable.assign(tf.cast(tf.fill(variable.shape, number + 2), variable.dtype))
    path = tf.train.Checkpoint(algorithm=algorithm).save(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(algorithm=other).restore(path).assert_existing_objects_matched()
    for key, variable in saved.items():
        np.testing.assert_array_equal(variable, restored[key], err_msg=key)


@pytest.mark.parametrize("name", registry.names())
def test_the_size_of_the_batch_need_not_be_known(name):
    """Exported policies, and inference, take batches of any size."""
    policy = make(name).policy
    env = EnvOutput(tf.zeros([B]), tf.ones([B], tf.bool), tf.zeros([B], tf.bool), tf.ones([B, 6]))
    arguments = tf.zeros([B], tf.int32), env, policy.initial_state(B), tf.range(B)
    signature = tf.nest.map_structure(lambda x: tf.TensorSpec([None, *x.shape[1:]], x.dtype), arguments)
    for act in (policy.act, policy.act_greedy):
        output, state = tf.function(act, input_signature=signature, autograph=False)(*arguments)
        assert (output.action.shape, output.action.dtype) == ((B,), tf.int32)
        tf.nest.assert_same_structure(state, arguments[2])
