import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.actor_critic import ActorCritic
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput, flatten_spec, pack_like

T, B, P = 6, 3, 4
# Matrix products of other shapes round differently.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
ACTION = ArraySpec((), "int32", (0,), (3,))
VECTOR = ArraySpec((5,), "float32")
FRAME = ArraySpec((10, 9), "uint8")
DICT = {
    "image": ArraySpec((36, 36), "uint8"),
    "inner": {"v": VECTOR, "n": ArraySpec((), "int32", (0,), (6,))},
}


def network(spec=VECTOR, **options):
    return ActorCritic(NetworkConfig(**{"lstm_size": 8} | options), EnvironmentSpec(spec, ACTION), P)


def random_unroll(spec, seed=0):
    rng = np.random.default_rng(seed)
    arrays = []
    for _, s in flatten_spec(spec):
        size, largest = (T, B, *s.shape), (s.maximum or [255])[0]
        is_float = np.dtype(s.dtype).kind == "f"
        arrays.append((rng.normal(size=size) if is_float else rng.random(size) * largest).astype(s.dtype))
    done = rng.random((T, B)) < 0.3
    done[0] = [True, False, False]
    reward = rng.normal(size=(T, B)).astype(np.float32) * 2
    env = EnvOutput(reward, done, np.zeros((T, B), bool), pack_like(spec, arrays))
    return tf.nest.map_structure(tf.constant, (rng.integers(0, 4, (T, B)).astype(np.int32), env))


VARIANTS = [
    (VECTOR, {}),
    (VECTOR, {"lstm_size": 0}),
    (FRAME, {"frame_stack": 4}),
    (FRAME, {"frame_stack": 4, "lstm_size": 0}),
    (DICT, {"frame_stack": 2}),
    (VECTOR, {"use_last_action_and_reward": False, "mlp_sizes": ""}),
]


@pytest.mark.parametrize("spec,options", VARIANTS)
def test_nothing_passes_an_episode_end(spec, options):
    net = network(spec, **options)
    prev_action, env = random_unroll(spec)
    done = env.done.numpy()
    done[3] = True
    env = env._replace(done=tf.constant(done))
    other_action, other = random_unroll(spec, seed=1)
    joined_action = tf.concat([other_action[:3], prev_action[3:]], 0)
    joined = tf.nest.map_structure(lambda x, y: tf.concat([x[:3], y[3:]], 0), other, env)
    # At an episode's first step neither the action nor the reward before it is an input either.
    joined_action = tf.tensor_scatter_nd_update(joined_action, [[3]], other_action[3:4])
    joined = joined._replace(reward=tf.tensor_scatter_nd_update(joined.reward, [[3]], other.reward[3:4]))
    expected, _ = net.unroll(prev_action, env, net.trunk.initial_state(B))
    output, _ = net.unroll(joined_action, joined, net.trunk.initial_state(B))
    np.testing.assert_allclose(output.policy_parameters[3:], expected.policy_parameters[3:], **CLOSE)
    assert np.abs(output.policy_parameters[:3] - expected.policy_parameters[:3]).max() > 1e-6
