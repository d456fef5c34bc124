"""Action masks in every algorithm for discrete actions: what acts, and what a loss moves."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms import registry
from seed_rl.types import ArraySpec, EnvironmentSpec, Sample
from tests.algorithms.q_learning import VECTOR, allowed_in, random_env, with_masks

A, B, ATOMS = 7, 6, 5
SPEC = EnvironmentSpec(
    {"action_mask": ArraySpec.packed((A,)), "observation": VECTOR}, ArraySpec((), "int32", (0,), (A - 1,))
)
# Agent, settings, and the outputs that its network has for an action.
CASES = {
    "vtrace": ("vtrace", {}, 1),
    "vtrace, LSTM": ("vtrace", {"lstm_size": 8, "kl_cost": 0.1}, 1),
    "ppo": ("ppo", {}, 1),
    "appo": ("appo", {"vtrace": True}, 1),
    "a2c": ("a2c", {}, 1),
    "r2d2": ("r2d2", {"num_eval_envs": 2, "burn_in": 2, "start_at_zero": False}, 1),
    "dqn": ("dqn", {"num_eval_envs": 2, "double": True}, 1),
    "rainbow": (
        "dqn",
        {"distribution": "categorical", "num_atoms": ATOMS, "exploration": "noisy", "n_steps": 3},
        ATOMS,
    ),
    "iqn": ("dqn", {"distribution": "quantile", "exploration": "ladder"}, 1),
    "pqn": ("pqn", {}, 1),
    "sac": ("sac", {"num_eval_envs": 2}, 1),
}


def make(name):
    keras.utils.set_random_seed(0)
    agent, options, _ = CASES[name]
    config_class = registry.config_class(agent)
    known = {leaf.name for leaf in config_class.leaves()}
    small = {"mlp_sizes": "12", "head_size": 10, "unroll_length": 6, "lstm_size": 0}
    options = {option: value for option, value in small.items() if option in known} | options
    return registry.make(agent, config_class.of(**options), SPEC, B)


def play(algorithm, act, num_steps, seed=0, always=None):
    """Steps of acting with random masks; `always` is an action that all masks forbid."""
    rng = np.random.default_rng(seed)
    env = with_masks(rng, random_env(rng, (num_steps, B), VECTOR), A)
    if always is not None:
        allowed = allowed_in(env, A)
        allowed[..., always], allowed[..., always - 1] = False, True
        env.observation["action_mask"] = np.packbits(allowed, -1)
    act, rows = tf.function(act, autograph=False), []
    prev_action, state = tf.zeros([B], tf.int32), algorithm.policy.initial_state(B)
    for t in range(num_steps):
        step = tf.nest.map_structure(lambda x, t=t: tf.constant(x[t]), env)
        output, next_state = act(prev_action, step, state, tf.range(B))
        rows.append(((prev_action, step, output), state))
        prev_action, state = output.action, next_state
    steps = tf.nest.map_structure(lambda *xs: tf.stack(xs), *(step for step, _ in rows))
    return Sample(*steps, rows[0][1], tf.ones([B]))


@pytest.mark.parametrize("name", CASES)
def test_only_allowed_actions_are_taken_and_each_of_them_is(name):
    algorithm = make(name)
    for act in (algorithm.policy.act, algorithm.policy.act_greedy):
        sample = play(algorithm, act, 150)
        allowed, actions = allowed_in(sample.env, A), sample.agent.action.numpy()
        assert np.take_along_axis(allowed, actions[..., None], -1).all()
        assert set(actions.flat) == set(range(A))
        for array in tf.nest.flatten(sample.agent.info):
            assert np.abs(array).max() < 1e8  # As inference requires.


@pytest.mark.parametrize("name", CASES)
def test_a_loss_moves_nothing_that_belongs_to_a_forbidden_action_only(name):
    algorithm, forbidden = make(name), 2
    sample = play(algorithm, algorithm.policy.act, algorithm.unroll.stored_steps, always=forbidden)
    sample = algorithm.prepare(sample)
    with tf.GradientTape(persistent=True) as tape:
        losses = algorithm.losses(sample)
        sums = {key: tf.reduce_sum(loss) for key, loss in losses.by_objective.items()}
    assert all(np.isfinite(value).all() for value in losses.metrics.values())
    assert all(abs(value) < 1e5 for value in losses.metrics.values())
    heads = 0
    for key, objective in algorithm.objectives.items():
        gradients = tape.gradient(sums[key], objective.variables)
        for variable, gradient in zip(objective.variables, gradients, strict=True):
            assert np.isfinite(gradient).all(), variable.path
            if len(variable.shape) and variable.shape[-1] == A * CASES[name][2]:
                heads += 1
                by_action = np.reshape(gradient, (-1, A, CASES[name][2]))
                if (
                    name != "r2d2"
                ):  # The mean of a dueling network's advantages includes those of all actions.
                    assert (by_action[:, forbidden] == 0).all(), variable.path
                assert (np.delete(by_action, forbidden, 1) != 0).any(), variable.path
    assert heads >= 2
