"""Networks of one's own in the place of the torsos."""

import sys
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.encoder import load_network
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.networks.trunk import Trunk
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput
from tests.installed import install

ACTION = ArraySpec((), "int32", (0,), (3,))
SPEC = {"image": ArraySpec((4, 5), "uint8"), "vector": ArraySpec((3,), "float32")}
T, B = 2, 3


class Means(keras.layers.Layer):
    """The mean of each frame of the image, the vector, and a learned shift."""

    def __init__(self, observation_spec):
        super().__init__()
        assert observation_spec == SPEC
        self.shift = self.add_weight(shape=(3,), initializer="ones", name="shift")

    def call(self, observation):
        frames = tf.reduce_mean(tf.cast(observation["image"], tf.float32), [1, 2])
        return tf.concat([frames, observation["vector"] + self.shift], -1)


class Flat(keras.layers.Layer):
    """Gives what no network may give."""

    def __init__(self, observation_spec):
        super().__init__()

    def call(self, observation):
        return observation["vector"][:, 0]


@pytest.fixture
def module(monkeypatch):
    """A module of somebody else's."""
    found = types.ModuleType("their_networks")
    found.Means, found.Flat, found.number = Means, Flat, 3
    monkeypatch.setitem(sys.modules, "their_networks", found)
    return found


def trunk(network, **options):
    config = NetworkConfig(lstm_size=0, network=network, use_last_action_and_reward=False, **options)
    return Trunk(config, EnvironmentSpec(SPEC, ACTION))


def test_the_network_gets_stacked_images_and_is_learned(module):
    found = trunk("their_networks:Means", frame_stack=2)
    image = np.arange(T * B * 20).reshape(T, B, 4, 5).astype(np.uint8)
    vector = np.random.default_rng(0).normal(size=(T, B, 3)).astype(np.float32)
    done = tf.constant([[True] * B, [False] * B])
    observation = {"image": tf.constant(image), "vector": tf.constant(vector)}
    env = EnvOutput(tf.zeros([T, B]), done, tf.zeros([T, B], tf.bool), observation)
    features, _ = found.unroll(tf.zeros([T, B], tf.int32), env, found.initial_state(B))
    assert features.shape == (T, B, 5)
    means = image.reshape(T, B, 20).mean(-1)
    np.testing.assert_allclose(features[..., 2:], vector + 1, rtol=1e-6)
    # The stack's newest frame is its last; before an episode's first frame there is that frame or none.
    np.testing.assert_allclose(features[..., 1], means, rtol=1e-6)
    np.testing.assert_allclose(features[1, :, 0], means[0], rtol=1e-6)
    assert [variable.name for variable in found.trainable_variables] == ["shift"]


def test_what_it_gives_is_checked(module):
    found = trunk("their_networks:Flat")
    with pytest.raises(
        ValueError, match=r"--network=Flat returned float32\(1,\); it must return features, float32 \[N, F\]"
    ):
        found.unroll(*found.example())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere:Class", "--network=nowhere:Class cannot be loaded: No module named 'nowhere'"),
        ("their_networks:Nothing", "cannot be loaded: module 'their_networks' has no attribute 'Nothing'"),
        ("their_networks:number", "is not a subclass of keras.layers.Layer"),
        ("means", "--network=means is not valid; write module:Class, or the name of an installed network"),
    ],
)
def test_a_bad_name_is_refused_in_words(module, name, words):
    with pytest.raises(ValueError, match="--network=") as caught:
        load_network(name)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_installed_package_may_name_one(module, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "seed_rl.networks", means="their_networks:Means")
    assert load_network("means") is Means
