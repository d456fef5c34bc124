"""Requirements on every algorithm: checkpoints, batches of any size, and masks of discrete actions."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms import registry
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput
from tests.algorithms import rollouts
from tests.algorithms.q_learning import VECTOR, allowed_in, random_env, with_masks

A, B, ATOMS, FORBIDDEN = 7, 6, 5, 2
ACTION, FRAME = ArraySpec((), "int32", (0,), (A - 1,)), ArraySpec((10, 9), "uint8")
BOX = ArraySpec((2,), "float32", (-2.0, 1.0), (2.0, 2.0))
MASKED = EnvironmentSpec({"action_mask": ArraySpec.packed((A,)), "observation": VECTOR}, ACTION)
_EVERYTHING = {"target_entropy": 1.0, "normalize_rewards": True, "lstm_size": 8, "kl_cost": 0.1}
# Agent, and settings.
CASES = {
    "vtrace": ("vtrace", {}),
    "vtrace, LSTM": ("vtrace", _EVERYTHING),
    "ppo": ("ppo", {}),
    "appo": ("appo", {"vtrace": True}),
    "a2c": ("a2c", {}),
    "r2d2": ("r2d2", {"num_eval_envs": 2, "burn_in": 2, "start_at_zero": False}),
    "dqn": ("dqn", {"num_eval_envs": 2, "double": True}),
    "rainbow": (
        "dqn",
        {"distribution": "categorical", "num_atoms": ATOMS, "exploration": "noisy", "n_steps": 3},
    ),
    "iqn": ("dqn", {"distribution": "quantile", "exploration": "ladder"}),
    "pqn": ("pqn", {}),
    "sac": ("sac", {"num_eval_envs": 2}),
}
_FRAMES = {"frame_stack": 4, "torso": "minatar"}
# Cases of which there is no mask: agent, spec, and settings.
OTHERS = {
    "ppo, LSTM": ("ppo", EnvironmentSpec(VECTOR, BOX), {**_EVERYTHING, "kl_cost": None}),
    "r2d2, LSTM": ("r2d2", EnvironmentSpec(FRAME, ACTION), {"lstm_size": 8, "dueling": True, **_FRAMES}),
    "dqn, noisy": (
        "dqn",
        EnvironmentSpec(VECTOR, ACTION),
        {"distribution": "quantile", "exploration": "noisy", "dueling": True, "layer_norm": True},
    ),
    "pqn, LSTM": ("pqn", EnvironmentSpec(VECTOR, ACTION), {"lstm_size": 8}),
    "sac, Box": ("sac", EnvironmentSpec(FRAME, BOX), _FRAMES),
}


def make(name):
    """An algorithm with small networks and statistics of observations."""
    keras.utils.set_random_seed(0)
    agent, spec, options = OTHERS[name] if name in OTHERS else (CASES[name][0], MASKED, CASES[name][1])
    config_class = registry.config_class(agent)
    known = {leaf.name for leaf in config_class.leaves()}
    small = {"mlp_sizes": "12", "head_size": 10, "unroll_length": 6, "burn_in": 2, "lstm_size": 0}
    wanted = small | {"normalize_observations": True} | options
    options = {option: value for option, value in wanted.items() if option in known and value is not None}
    return registry.make(agent, config_class.of(**options), spec, B), spec


def play(algorithm, act, num_steps, always=None):
    """Steps of acting with random masks; `always` is an action that all masks forbid."""
    rng = np.random.default_rng(0)
    env = with_masks(rng, random_env(rng, (num_steps, B), VECTOR), A)
    if always is not None:
        allowed = allowed_in(env, A)
        allowed[..., always], allowed[..., always - 1] = False, True
        env.observation["action_mask"] = np.packbits(allowed, -1)
    act = tf.function(act, autograph=False)
    return rollouts.play(act, env, tf.zeros([B], tf.int32), algorithm.policy.initial_state(B))[0]


def variables(algorithm):
    """All variables of the algorithm, its networks and whatever else it holds, by name."""
    found = {}
    for name, value in vars(algorithm).items():
        parts = [value] if isinstance(value, tf.Variable) else getattr(value, "variables", ())
        found |= {f"{name} {number}": variable for number, variable in enumerate(parts)}
    return found


@pytest.mark.parametrize("name", [*CASES, *OTHERS])
def test_a_checkpoint_holds_every_variable(name, tmp_path):
    (algorithm, _), (other, _) = make(name), make(name)
    saved, restored = variables(algorithm), variables(other)
    assert len(saved) > 5
    for number, variable in enumerate(saved.values()):
        variable.assign(tf.cast(tf.fill(variable.shape, number + 2), variable.dtype))
    path = tf.train.Checkpoint(algorithm=algorithm).save(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(algorithm=other).restore(path).assert_existing_objects_matched()
    for key, variable in saved.items():
        np.testing.assert_array_equal(variable, restored[key], err_msg=key)


@pytest.mark.parametrize("name", OTHERS)
def test_the_size_of_the_batch_need_not_be_known(name):
    """Exported policies, and inference, take batches of any size."""
    algorithm, spec = make(name)
    policy = algorithm.policy
    env = EnvOutput(tf.zeros([B]), tf.ones([B], tf.bool), tf.zeros([B], tf.bool), spec.observation.zeros(B))
    arguments = tf.constant(spec.action.zeros(B)), env, policy.initial_state(B), tf.range(B)
    signature = tf.nest.map_structure(lambda x: tf.TensorSpec([None, *x.shape[1:]], x.dtype), arguments)
    for act in (policy.act, policy.act_greedy):
        output, state = tf.function(act, input_signature=signature, autograph=False)(*arguments)
        assert (output.action.shape, output.action.dtype) == ((B, *spec.action.shape), spec.action.dtype)
        tf.nest.assert_same_structure(state, arguments[2])


@pytest.mark.parametrize("name", CASES)
def test_only_allowed_actions_are_taken_and_each_of_them_is(name):
    algorithm, _ = make(name)
    for act in (algorithm.policy.act, algorithm.policy.act_greedy):
        sample = play(algorithm, act, 150)
        allowed, actions = allowed_in(sample.env, A), sample.agent.action.numpy()
        assert np.take_along_axis(allowed, actions[..., None], -1).all()
        assert set(actions.flat) == set(range(A))
        for array in tf.nest.flatten(sample.agent.info):
            assert np.abs(array).max() < 1e8  # As inference requires.


@pytest.mark.parametrize("name", CASES)
def test_a_loss_moves_every_variable_but_nothing_that_belongs_to_a_forbidden_action_only(name):
    algorithm, _ = make(name)
    sample = play(algorithm, algorithm.policy.act, algorithm.unroll.stored_steps, always=FORBIDDEN)
    sample = algorithm.prepare(sample)
    with tf.GradientTape(persistent=True) as tape:
        losses = algorithm.losses(sample)
        sums = {key: tf.reduce_sum(loss) for key, loss in losses.by_objective.items()}
    assert all(np.isfinite(value).all() for value in losses.metrics.values())
    assert all(abs(value) < 1e5 for value in losses.metrics.values())
    heads, outputs = 0, ATOMS if name == "rainbow" else 1
    for key, objective in algorithm.objectives.items():
        gradients = tape.gradient(sums[key], objective.variables)
        for variable, gradient in zip(objective.variables, gradients, strict=True):
            assert np.isfinite(gradient).all() and np.abs(gradient).max() > 0, variable.path
            if len(variable.shape) and variable.shape[-1] == A * outputs:
                heads += 1
                by_action = np.reshape(gradient, (-1, A, outputs))
                if name != "r2d2":  # The mean of a dueling network's advantages includes those of all.
                    assert (by_action[:, FORBIDDEN] == 0).all(), variable.path
                assert (np.delete(by_action, FORBIDDEN, 1) != 0).any(), variable.path
    assert heads >= 2
