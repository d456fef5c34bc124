"""ONNX models, run by ONNX Runtime beside the policies that they come from."""

import os

import keras
import numpy as np
import onnxruntime
import pytest
import tensorflow as tf

from seed_rl.algorithms import registry
from seed_rl.algorithms.policy import Policy
from seed_rl.training.export_onnx import export_onnx
from seed_rl.types import AgentOutput, ArraySpec, EnvironmentSpec, EnvOutput
from tests.selection import mostly_slow

B = 5
CATCH = EnvironmentSpec(ArraySpec((10, 5), "float32"), ArraySpec((), "int32", (0,), (2,)))
FRAMES = EnvironmentSpec(ArraySpec((44, 44), "uint8"), ArraySpec((), "int32", (0,), (5,)))
BOOLS = EnvironmentSpec(ArraySpec.packed((10, 10, 4)), ArraySpec((), "int32", (0,), (2,)))
JOINTS = EnvironmentSpec(ArraySpec((17,), "float32"), ArraySpec((2,), "float32", (-1, -1), (1, 1)))
SEVERAL = EnvironmentSpec(
    {"camera": ArraySpec((8, 8, 3), "uint8"), "speed": ArraySpec((), "float32")},
    ArraySpec((2,), "int32", (0, 0), (2, 3)),
)
MASKED = EnvironmentSpec(
    {"action_mask": ArraySpec.packed((11,)), "observation": ArraySpec((5,), "float32")},
    ArraySpec((), "int32", (0,), (10,)),
)

CASES = {
    "vtrace": ("vtrace", CATCH, {"lstm_size": 0}),
    "lstm": ("vtrace", CATCH, {"lstm_size": 7}),
    "dqn": ("dqn", CATCH, {}),
    "r2d2": ("r2d2", FRAMES, {}),
    "stacked": ("dqn", FRAMES, {"frame_stack": 4, "exploration": "noisy"}),
    "two": ("dqn", FRAMES, {"frame_stack": 2}),
    "bools": ("pqn", BOOLS, {"frame_stack": 8}),
    "normalized": ("ppo", JOINTS, {"normalize_observations": True, "normalize_rewards": True}),
    "sac": ("sac", JOINTS, {}),
    "several": ("vtrace", SEVERAL, {}),
    "masked": ("dqn", MASKED, {}),
}


def make_policy(agent, spec, options):
    keras.utils.set_random_seed(1)
    return registry.make(agent, registry.config_class(agent).of(**options), spec, 4).policy


def random_like(rng, spec):
    shape = (B, *spec.shape)
    if spec.dtype == "float32":
        return rng.normal(size=shape).astype(np.float32)
    highest = np.reshape(spec.maximum, spec.shape) if spec.maximum else 255
    return rng.integers(highest, size=shape, endpoint=True).astype(spec.dtype)


def random_step(rng, spec, step):
    """The actions and outputs of environments, whose first episodes begin at step 0."""
    reward = rng.normal(size=B).astype(np.float32)
    done, truncated = rng.random((2, B)) < 0.3
    seen = tf.nest.map_structure(lambda leaf: random_like(rng, leaf), spec.observation)
    return random_like(rng, spec.action), EnvOutput(reward, done | (step == 0), truncated, seen)


def by_name(prefix, nest):
    return {f"{prefix}_{i}": x.numpy() for i, x in enumerate(tf.nest.flatten(nest))}


@pytest.mark.parametrize("case", mostly_slow(list(CASES), ["vtrace", "lstm", "dqn"]))
def test_onnx_runtime_computes_the_policy(case, tmp_path):
    agent, spec, options = CASES[case]
    policy = make_policy(agent, spec, options)
    path = tmp_path / "policy.onnx"
    assert export_onnx(policy, spec, 4, path) <= 1e-5
    assert os.listdir(tmp_path) == ["policy.onnx"]
    session = onnxruntime.InferenceSession(str(path))
    outputs = [x.name for x in session.get_outputs()]

    rng = np.random.default_rng(7)
    state = policy.initial_state(B)
    theirs = by_name("state", tf.nest.map_structure(tf.zeros_like, state))
    for step in range(6):
        action, env = random_step(rng, spec, step)
        observation = env.observation
        is_dict = isinstance(observation, dict)
        named = {f"observation/{key}": x for key, x in observation.items()} if is_dict else {}
        inputs = {"prev_action": action, **env._asdict(), **named, **theirs}
        if named:
            del inputs["observation"]
        found = dict(zip(outputs, session.run(None, inputs), strict=True))
        tensors = tf.nest.map_structure(tf.constant, (action, env))
        output, state = policy.act_greedy(*tensors, state, tf.range(4, 4 + B))
        expected = {"action": output.action, **output.info, **by_name("next_state", state)}
        assert set(found) == set(expected)
        for name, x in expected.items():
            assert found[name].dtype == x.dtype
            np.testing.assert_allclose(found[name], x, rtol=1e-5, atol=1e-5, err_msg=name)
        theirs = {name[5:]: x for name, x in found.items() if name.startswith("next_state_")}


class Odd(Policy):
    """A policy whose greedy action is given."""

    def __init__(self, choose):
        super().__init__()
        self._choose = choose

    def initial_state(self, batch_size):
        return ()

    def act(self, prev_action, env, state, env_ids):
        return AgentOutput(self._choose(env.reward), {}), state


@pytest.mark.parametrize(
    ("choose", "words"),
    [
        (lambda x: tf.cast(1e6 * tf.random.uniform(tf.shape(x)), tf.int32), "differ by"),
        (lambda x: tf.cast(tf.py_function(lambda y: y, [x], tf.float32), tf.int32), "cannot express"),
        (lambda x: tf.cast(tf.strings.length(tf.strings.as_string(x)), tf.int32), "cannot express"),
    ],
)
def test_what_onnx_cannot_do_leaves_no_file(choose, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        export_onnx(Odd(choose), CATCH, 4, tmp_path / "policy.onnx")
    assert os.listdir(tmp_path) == []
