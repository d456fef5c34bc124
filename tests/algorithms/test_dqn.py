"""DQN and its descendants by themselves: losses, priorities, targets, exploration."""

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from seed_rl.algorithms.base import LOSS
from seed_rl.algorithms.dqn import DQN
from seed_rl.algorithms.dqn_config import DQNConfig
from seed_rl.types import AgentOutput, ArraySpec, EnvironmentSpec, Sample
from tests.algorithms.q_learning import (
    ACTION,
    MASKED,
    A,
    allowed_in,
    h,
    h_inverse,
    random_env,
    rows_like_the_first,
    shake,
    slow_transition,
)
from tests.algorithms.rollouts import loss_of
from tests.selection import mostly_slow

B, N_STEPS = 40, 3
FRAME = ArraySpec((5, 4), "uint8")


def make(observation=FRAME, num_envs=B, action=ACTION, **options):
    """An algorithm with weights that make values depend on all inputs, and another target network."""
    keras.utils.set_random_seed(0)
    options = {
        "n_steps": N_STEPS,
        "frame_stack": 4 if observation is FRAME else 1,
        "mlp_sizes": "16",
        "head_size": 8,
        "discounting": 0.9,
    } | options
    return shake(DQN(DQNConfig.of(**options), EnvironmentSpec(observation, action), num_envs), scale=2)


def random_sample(algorithm, seed=0, observation=FRAME, ends=0.2):
    """Transitions as replay gives them: without a state, and without the output of acting."""
    rng, num_steps = np.random.default_rng(seed), algorithm.unroll.stored_steps
    env = random_env(rng, (num_steps, B), observation, ends)
    actions = rng.integers(0, A, (num_steps + 1, B)).astype(np.int32)
    if observation is MASKED:
        allowed = allowed_in(env)
        actions[1:] = np.where(allowed, rng.random(allowed.shape), -1).argmax(-1)
    arrays = (actions[:-1], env, AgentOutput(actions[1:], {}))
    return Sample(*tf.nest.map_structure(tf.constant, arrays), (), tf.ones([B]))


def fix_fractions(algorithm, monkeypatch):
    """Fixed fractions, in place of random ones."""
    rng = np.random.default_rng(9)
    fixed = {target: rng.random((B, size)).astype(np.float32) for target, size in ((False, 5), (True, 7))}
    if algorithm._returns.implicit:
        monkeypatch.setattr(
            algorithm._returns, "fractions", lambda _, for_target: tf.constant(fixed[for_target])
        )
    return fixed


class Slow:
    """The loss of one transition after the other, in float64, written like the equations."""

    def __init__(self, algorithm, sample, fractions):
        self.config, self.algorithm, self.fractions = algorithm._config, algorithm, fractions
        self.env = tf.nest.map_structure(lambda x: x.numpy(), sample.env)
        self.action, self.start = sample.agent.action.numpy(), algorithm.unroll.burn_in
        state = algorithm.policy.initial_state(B)
        # The whole sample is run through both networks: [S, B, F].
        self.features = {
            network: network.trunk.unroll(sample.prev_action, sample.env, state)[0].numpy()
            for network in (algorithm._online, algorithm._target)
        }

    def outputs(self, network, step, b, fractions=None):
        """[A, K]."""
        features = tf.constant(self.features[network][step, b][np.newaxis])
        fractions = None if fractions is None else tf.constant(fractions[np.newaxis])
        return network.outputs(features, fractions)[0].numpy().astype(np.float64)

    def q(self, network, step, b):
        """Values for choosing an action: [A]."""
        fractions = None
        if self.config.distribution == "quantile":
            number = self.config.num_acting_quantiles
            fractions = ((np.arange(number) + 0.5) / number).astype(np.float32)
        return self.mean(self.outputs(network, step, b, fractions))

    def mean(self, outputs):
        if self.config.distribution == "categorical":
            return scipy.special.softmax(outputs, -1) @ self.atoms
        return outputs.mean(-1)

    @property
    def atoms(self):
        return np.linspace(self.config.v_min, self.config.v_max, self.config.num_atoms)

    def allowed(self, values, step, b):
        """The values with -inf in the place of those of forbidden actions."""
        masked = isinstance(self.env.observation, dict)
        return np.where(allowed_in(self.env)[step, b], values, -np.inf) if masked else values

    def transition(self, b):
        """The sum of rewards, the discount, and the step to bootstrap from."""
        return slow_transition(self.config, self.env, self.start, np.inf, b)

    def loss(self, b):
        """The loss and the priority."""
        config, online, target = self.config, self.algorithm._online, self.algorithm._target
        if self.env.truncated[self.start, b]:
            return 0.0, 0.0
        quantile = config.distribution == "quantile"
        total, discount, step = self.transition(b)
        action = self.action[self.start, b]
        taken = self.outputs(online, self.start, b, self.fractions[False][b] if quantile else None)[action]
        later = self.outputs(target, step, b, self.fractions[True][b] if quantile else None)
        values = self.q(online, step, b) if config.double else self.mean(later)
        later = later[self.allowed(values, step, b).argmax()]
        if config.distribution == "categorical":
            return self.categorical(taken, total, discount, scipy.special.softmax(later, -1))
        if quantile:
            loss = self.quantile(taken, self.fractions[False][b], total + discount * later)
            return loss, loss
        return self.scalar(taken[0], total, discount, later[0])

    def scalar(self, taken, total, discount, value):
        epsilon = self.config.value_function_rescaling_epsilon
        target = h(total + discount * h_inverse(value, epsilon), epsilon)
        size = abs(target - taken)
        linear = self.config.loss == "huber" and size > 1
        return (size - 0.5 if linear else 0.5 * size**2), size

    def categorical(self, logits, total, discount, probabilities):
        atoms, projected = self.atoms, np.zeros(self.config.num_atoms)
        spacing = atoms[1] - atoms[0]
        for i in range(len(atoms)):
            for j in range(len(atoms)):
                value = min(max(total + discount * atoms[j], atoms[0]), atoms[-1])
                projected[i] += max(0.0, 1 - abs(value - atoms[i]) / spacing) * probabilities[j]
        loss = -(projected * np.log(scipy.special.softmax(logits, -1))).sum()
        return loss, loss + sum(p * np.log(p) for p in projected if p > 0)

    def quantile(self, taken, fractions, targets):
        total = 0.0
        for i in range(len(taken)):
            for target in targets:
                delta = target - taken[i]
                huber = 0.5 * delta**2 if abs(delta) <= 1 else abs(delta) - 0.5
                total += abs(fractions[i] - (delta < 0)) * huber / len(targets)
        return total


SETTINGS = [
    {},
    {"double": True, "dueling": True},
    {"distribution": "categorical", "num_atoms": 6, "dueling": True, "v_min": -3.0, "v_max": 8.0},
    {"distribution": "quantile", "num_acting_quantiles": 6, "dueling": True},
]
FURTHER_SETTINGS = [
    {"n_steps": 1},
    {"loss": "squared", "max_abs_reward": 1.0},
    {"value_function_rescaling_epsilon": 0.1, "double": True},
    {"distribution": "categorical", "num_atoms": 11, "double": True},
    {"distribution": "quantile", "num_acting_quantiles": 6, "double": True},
    {"use_last_action_and_reward": True},
]


@pytest.mark.parametrize("observation", [FRAME, MASKED], ids=["frames", "masks"])
@pytest.mark.parametrize("options", mostly_slow(SETTINGS + FURTHER_SETTINGS, SETTINGS), ids=str)
def test_loss_and_priorities_against_numpy(options, observation, monkeypatch):
    algorithm = make(observation, **options)
    fractions = fix_fractions(algorithm, monkeypatch)
    sample = random_sample(algorithm, observation=observation)
    slow = Slow(algorithm, sample, fractions)
    expected = np.array([slow.loss(b) for b in range(B)])
    target = algorithm._target.trainable_variables

    @tf.function(autograph=False)
    def losses():
        with tf.GradientTape() as tape:
            output = algorithm.losses(sample)
        return output, tape.gradient(output.by_objective[LOSS], target)

    output, gradients = losses()
    assert gradients == [None] * len(target)
    np.testing.assert_allclose(output.by_objective[LOSS], expected[:, 0], rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(output.priority, expected[:, 1], rtol=2e-3, atol=1e-3)
    ends = [slow.transition(b) for b in range(B)]
    assert min(step for *_, step in ends) == slow.start and 0.0 in [discount for _, discount, _ in ends]
    valid = ~slow.env.truncated[slow.start]
    np.testing.assert_allclose(output.metrics["td_error"], expected[valid, 1].mean(), rtol=2e-3)
    assert all(np.isfinite(value) for value in output.metrics.values())


def test_noise_differs_between_updates_and_the_policy_is_greedy_without():
    algorithm = make(exploration="noisy", num_eval_envs=2)
    sample = random_sample(algorithm)
    loss = tf.function(lambda: loss_of(algorithm, sample), autograph=False)
    assert np.abs(loss() - loss()).max() > 1e-3
    arguments = rows_like_the_first(B, FRAME)
    state = algorithm.policy.initial_state(B)
    first, second = (algorithm.policy.act(*arguments, state, tf.range(B))[0] for _ in range(2))
    greedy = algorithm.policy.act_greedy(*arguments, state, tf.range(B))[0]
    difference = np.abs(first.info["q_values"] - second.info["q_values"]).max(1)
    assert (difference[: B - 2] > 1e-4).all() and (difference[B - 2 :] == 0).all()
    np.testing.assert_allclose(first.info["q_values"][B - 2 :], greedy.info["q_values"][B - 2 :], atol=1e-5)
    np.testing.assert_array_equal(
        first.action[: B - 2], first.info["q_values"].numpy().argmax(-1)[: B - 2]
    )  # No epsilon beside the noise.


def strayed(algorithm, env_id, rows=4000):
    """The share of actions that are not the best."""
    arguments = (*rows_like_the_first(rows, FRAME), algorithm.policy.initial_state(rows))
    output, _ = algorithm.policy.act(*arguments, tf.fill([rows], env_id))
    return (output.action.numpy() != output.info["q_values"].numpy().argmax(-1)).mean()


def test_epsilon_falls_with_the_progress_of_the_run_and_not_in_evaluation():
    algorithm = make(
        num_envs=5,
        num_eval_envs=2,
        eval_epsilon=0.0,
        initial_epsilon=1.0,
        final_epsilon=0.2,
        epsilon_fraction=0.5,
    )
    other = (A - 1) / A
    for progress, epsilon in ((None, 1.0), (0.25, 0.6), (0.5, 0.2), (0.8, 0.2)):
        if progress is not None:
            algorithm.after_update(tf.constant(1, tf.int64), tf.constant(progress))
        for env_id in (0, 2):
            np.testing.assert_allclose(strayed(algorithm, env_id), epsilon * other, atol=0.03)
        assert strayed(algorithm, 3) == 0 == strayed(algorithm, 9)
        np.testing.assert_allclose(algorithm._exploration.mean(), epsilon, rtol=1e-5)


def test_a_ladder_has_an_epsilon_for_each_environment():
    algorithm = make(num_envs=4, num_eval_envs=1, exploration="ladder", eval_epsilon=1.0)
    for env_id, epsilon in enumerate((0.4, 0.4**4.5, 0.4**8, 1.0)):
        np.testing.assert_allclose(strayed(algorithm, env_id), epsilon * (A - 1) / A, atol=0.03)
