"""The trunk's state and extra inputs; tests/networks/test_actor_critic.py runs it over time."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.trunk import Trunk, last_action_and_reward
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput

ACTION = ArraySpec((), "int32", (0,), (3,))
VECTOR = ArraySpec((5,), "float32")
FRAME = ArraySpec((10, 9), "uint8")
DICT = {"image": ArraySpec((36, 36), "uint8"), "v": VECTOR}


def trunk(spec=VECTOR, **options):
    return Trunk(NetworkConfig(**{"lstm_size": 8} | options), EnvironmentSpec(spec, ACTION))


def test_state_is_only_what_is_needed():
    assert trunk(lstm_size=0).initial_state(2) == ()
    assert sorted(trunk().initial_state(2)) == ["core"]
    assert sorted(trunk(FRAME, frame_stack=4, lstm_size=0).initial_state(2)) == ["frames"]
    assert sorted(trunk(FRAME, frame_stack=4).initial_state(2)) == ["core", "frames"]
    assert list(trunk(DICT, frame_stack=2).initial_state(2)["frames"]) == ["image"]


def test_last_action_and_reward():
    env = EnvOutput(tf.constant([[0.5, -7.0, 3.0]]), tf.constant([[False, False, True]]), None, None)
    output = last_action_and_reward(ACTION, tf.constant([[1, 3, 2]]), env, 1.0)
    np.testing.assert_array_equal(output, [[[0, 1, 0, 0, 0.5], [0, 0, 0, 1, -1], [0, 0, 0, 0, 0]]])


@pytest.mark.parametrize(
    ("options", "reward"),
    [({}, -1.0), ({"max_abs_last_reward": 5.0}, -5.0), ({"max_abs_last_reward": 0.0}, -7.0)],
)
def test_the_last_reward_is_clipped_as_the_settings_say(options, reward):
    network = trunk(lstm_size=0, mlp_sizes="", **options)
    _, env, state = network.example()
    env = env._replace(reward=tf.constant([[-7.0]]), done=tf.constant([[False]]))
    features, _ = network.unroll(tf.constant([[2]]), env, state)
    np.testing.assert_array_equal(features[0, 0, -5:], [0, 0, 1, 0, reward])


def test_the_last_action_is_scaled_by_bounds_that_are_far_out():
    env = EnvOutput(tf.zeros([1, 1]), tf.constant([[False]]), None, None)
    spec = ArraySpec((5,), "float32", (-2, 100, -np.inf, 1000, 77), (2, 500, np.inf, np.inf, 77))
    for action, expected in (
        ([1.5, 400.0, 3.0, 1003.0, 77.0], [1.5, 0.5, 3.0, 2.0, 0.0]),
        ([-2.0, 100.0, -99.0, 5000.0, 77.0], [-2.0, -1.0, -10.0, 10.0, 0.0]),
    ):
        box = last_action_and_reward(spec, tf.constant([[action]]), env, 1.0)
        np.testing.assert_array_equal(box, [[[*expected, 0]]])
