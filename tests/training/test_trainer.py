import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms.base import LOSS, AlgorithmError, Losses, Objective
from seed_rl.devices.replicas import Replicas
from seed_rl.training.trainer import InitialPriorities, Trainer
from seed_rl.training.training_config import TrainerConfig
from seed_rl.types import AgentOutput, EnvOutput, Unroll
from tests.training.slopes import B, Pair, Slope, sample


def trainer(algorithm=None, **settings):
    return Trainer(algorithm or Slope(), TrainerConfig(learning_rate=0.1, **settings))


@pytest.mark.parametrize(
    ("warm_up", "progress", "rate"),
    [
        *[(0.0, 0, 0.1), (0.0, 0.25, 0.075), (0.0, 1, 0), (0.0, 1.5, 0), (0.0, -1, 0.1)],
        *[(0.2, 0, 0), (0.2, 0.1, 0.045), (0.2, 0.2, 0.08), (0.2, 0.6, 0.04)],
    ],
)
def test_the_learning_rate_warms_up_and_decays(warm_up, progress, rate):
    found = trainer(learning_rate_warm_up_fraction=warm_up)
    assert found.learning_rate(progress) == pytest.approx(rate)


def test_tensorflow_keeps_none_of_the_numbers_of_an_update(monkeypatch):
    """Its cache of Python's numbers never forgets one: 1.5 kB for each update of a long run."""
    found, rate, progress = trainer(), 0.123456, 0.654321
    monkeypatch.setattr(found, "learning_rate", lambda _: rate)
    before = sys.getrefcount(rate), sys.getrefcount(progress)
    found.update(sample(2.0), progress)
    assert (sys.getrefcount(rate), sys.getrefcount(progress)) == before


@pytest.mark.parametrize(("rule", "rate"), [("sqrt", 0.3), ("linear", 0.9)])
def test_the_learning_rate_grows_with_the_batch_by_a_rule(rule, rate):
    algorithm = Slope()
    found = trainer(algorithm, batch_size=36, learning_rate_scaling=rule, learning_rate_batch_size=4)
    assert found.learning_rate(0.5) == pytest.approx(rate / 2)
    output = found.update(sample(2.0), progress=0.5)
    assert output.metrics["learning_rate"].numpy() == pytest.approx(rate / 2)
    np.testing.assert_allclose(algorithm.weights.numpy(), 1.0 - rate / 2, rtol=1e-5)  # Adam's first step.


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"learning_rate_scaling": "sqrt"}, "^--learning_rate_scaling=sqrt needs .*--learning_rate_batch"),
        ({"learning_rate_batch_size": 4}, "^--learning_rate_batch_size=4 has no effect .*or leave it out"),
        ({"learning_rate_scaling": "log"}, "choose one of: none, sqrt, linear"),
    ],
)
def test_half_a_rule_is_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        TrainerConfig(**settings)


def test_updates_are_counted_and_told():
    algorithm = Slope()
    found = trainer(algorithm, adam_epsilon=1e9)  # So that nothing moves.
    assert (found.updates, found.iteration.numpy()) == (0, 0)
    for progress in (0.0, 0.25, 1.5):
        output = found.update(sample(1.0, weight=[0, 0, 2, 4]), progress)
        assert output.metrics["loss"].numpy() == pytest.approx(2.0 * (2 + 4) / 4)
        assert algorithm.progress_seen.numpy() == min(progress, 1.0)
    assert (found.updates, found.iteration.numpy(), algorithm.seen.numpy()) == (3, 3, 3)
    assert algorithm.observed.numpy() == 3 * 2 * B
    assert output.priority.shape == (B,)
    assert set(output.metrics) == {"my_figure", "loss", "gradient_norm", "learning_rate"}


def clipped(gradient, norm):
    return gradient * min(1.0, norm / np.linalg.norm(gradient))


def slow_pair(slopes, rates, config):
    """Values of `Pair` after updates with these slopes and learning rates of the run: (actor, critic)."""
    actor, critic = np.array([2.0, 1.0]), np.array([1.0, -3.0])
    first, second, velocity = np.zeros(2), np.zeros(2), np.zeros(2)
    for count, (slope, rate) in enumerate(zip(slopes, rates, strict=True), 1):
        # Both gradients are those before the update; each objective is clipped by a norm of its own.
        actor_gradient, critic_gradient = np.full(2, slope), slope * actor
        if config.clip_norm:
            actor_gradient = clipped(actor_gradient, config.clip_norm)
            critic_gradient = clipped(critic_gradient, config.clip_norm)
        first = config.adam_beta_1 * first + (1 - config.adam_beta_1) * actor_gradient
        second = 0.999 * second + 0.001 * actor_gradient**2
        step = rate * np.sqrt(1 - 0.999**count) / (1 - config.adam_beta_1**count)
        actor = actor - step * first / (np.sqrt(second) + config.adam_epsilon)
        velocity = 0.75 * velocity - 0.5 * critic_gradient
        critic = critic + velocity
    return actor, critic


@pytest.mark.parametrize("clip_norm", [0.0, 0.5, 4.0])
def test_each_objective_moves_its_own_variables_by_its_own_optimizer(clip_norm):
    pair = Pair()
    found = trainer(pair, clip_norm=clip_norm, adam_beta_1=0.5, adam_epsilon=0.01)
    slopes, progress = [2.0, -1.0, 3.0], [0.0, 0.25, 0.5]
    for slope, share in zip(slopes, progress, strict=True):
        output = found.update(sample(slope), share)
    assert output.metrics["learning_rate"].numpy() == pytest.approx(0.05)
    actor, critic = slow_pair(slopes, [0.1, 0.075, 0.05], found._config)
    np.testing.assert_allclose(pair.actor, actor, rtol=1e-5)
    np.testing.assert_allclose(pair.critic, critic, rtol=1e-5)
    # Of the two, only the one that the trainer made follows the run's schedule.
    assert found.optimizers["actor"].learning_rate.numpy() == pytest.approx(0.05)
    assert found.optimizers["critic"].learning_rate.numpy() == 0.5
    np.testing.assert_array_equal(pair.weights, [1.0, 1.0])  # In no objective.
    assert (found.updates, pair.seen.numpy(), pair.observed.numpy()) == (3, 3, sum(slopes) * 2 * B)


def test_metrics_of_two_objectives():
    weight = [0.0, 1.0, 1.0, 4.0]
    output = trainer(Pair(), clip_norm=0.5).update(sample(2.0, weight), 0.0)
    metrics = {name: float(value) for name, value in output.metrics.items()}
    slope = 2.0 * 6 / 4  # The weighted mean of what the losses are multiples of.
    actor_norm, critic_norm = slope * np.sqrt(2), slope * np.sqrt(2.0**2 + 1.0**2)  # Before clipping.
    assert metrics == pytest.approx(
        {
            "actor_loss": slope * 3.0,
            "critic_loss": slope * (2.0 * 1.0 - 1.0 * 3.0),
            "loss": slope * 2.0,
            "actor_gradient_norm": actor_norm,
            "critic_gradient_norm": critic_norm,
            "gradient_norm": np.hypot(actor_norm, critic_norm),
            "learning_rate": 0.1,
            "my_figure": 2.0,
        },
        rel=1e-5,
    )
    assert output.priority is None


def test_an_optimizer_of_its_own_is_left_alone_where_there_is_one_objective():
    class Own(Slope):
        optimizer = keras.optimizers.SGD(0.25)

        @property
        def objectives(self):
            return {LOSS: Objective([self.weights], self.optimizer)}

    algorithm = Own()
    found = trainer(algorithm, learning_rate_scaling="linear", learning_rate_batch_size=1)
    output = found.update(sample(2.0), progress=1.0)  # The run's own learning rate is 0 by now.
    assert "learning_rate" not in output.metrics  # It would be that of the run.
    assert found.optimizers == {LOSS: algorithm.optimizer}
    np.testing.assert_allclose(algorithm.weights.numpy(), 1.0 - 0.25 * 2.0)


@pytest.mark.parametrize("jit", [False, True])
def test_losses_of_the_wrong_shape_are_refused_before_anything_moves(jit):
    class Unreduced(Slope):
        def losses(self, sample):
            output = super().losses(sample)
            return output._replace(by_objective={LOSS: sample.env.reward * tf.reduce_sum(self.weights)})

    algorithm = Unreduced()
    found = Trainer(algorithm, TrainerConfig(), Replicas(jit=jit))
    with pytest.raises(AlgorithmError, match=r"^Unreduced\.losses must return 'loss' of shape \[B\] = \[4\]"):
        found.update(sample(1.0), 0.0)
    np.testing.assert_array_equal(algorithm.weights, [1.0, 1.0])
    assert (found.updates, found.iteration.numpy()) == (0, 0)


S = 4


class Judge:
    """Takes the sum of the Q-values of an unroll's actions for its priority, and rewards for a tenth."""

    traced = 0

    def initial_priority(self, env, agent):
        self.traced += 1
        assert env.observation == ()
        chosen = tf.gather(agent.info["q_values"], agent.action, batch_dims=2)
        return tf.reduce_sum(chosen + 0.1 * env.reward, 0)


def unroll(number):
    steps = np.arange(S, dtype=np.float32) + number
    env = EnvOutput(steps, steps < 0, steps < 0, {"image": np.zeros((S, 2, 2), np.uint8)})
    q_values = np.stack([steps, -steps], -1)
    action = (np.arange(S) % 2).astype(np.int32)
    return Unroll(action, env, AgentOutput(action, {"q_values": q_values}), (), np.zeros(S, np.int64))


def test_each_unroll_is_judged_by_itself_however_many_come():
    judge = Judge()
    priorities = InitialPriorities(judge)
    for count in (1, 3, 2, 7, 5, 4):
        found = priorities([unroll(number) for number in range(count)])
        assert (found.shape, found.dtype) == ((count,), np.float32)
        # 0 - 1 + 2 - 3 = -2 whatever the start, and a tenth of the rewards.
        expected = [-2 + 0.1 * (6 + 4 * number) for number in range(count)]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert judge.traced <= 2  # Not once for every number of unrolls.


RATE = 0.25


class Nested(Slope):
    """Two layers, of which one is in a list, and a variable that the loss does not depend on."""

    def __init__(self):
        super().__init__()
        self._inputs = tf.Module()
        self._inputs.kernel, self._inputs.bias = tf.Variable([3.0, 4.0]), tf.Variable(12.0)
        self.blocks = [keras.layers.Dense(1)]
        self.blocks[0].build((None, 2))
        self._idle = tf.Variable([0.0, 5.0])

    @property
    def objectives(self):
        variables = [self._inputs.kernel, self._inputs.bias, *self.blocks[0].variables, self._idle]
        return {LOSS: Objective(variables)}

    def losses(self, sample):
        slope = tf.reduce_mean(sample.env.reward, axis=0)
        kernel, bias = self.blocks[0].variables
        loss = (
            3 * tf.reduce_sum(self._inputs.kernel)
            + tf.reduce_sum(self._inputs.bias)
            + 2 * tf.reduce_sum(kernel)
        )
        return Losses({LOSS: slope * (loss + tf.reduce_sum(bias))}, None, {})


def updated(algorithm, **settings):
    """The metrics of an update by plain gradient descent, and the trainer."""
    found = Trainer(algorithm, TrainerConfig(learning_rate=RATE, log_layer_norms=True, **settings))
    for name, objective in algorithm.objectives.items():
        if objective.optimizer is None:
            found.optimizers[name] = keras.optimizers.SGD(RATE)
            found.optimizers[name].build(objective.variables)
    output = found.update(sample(2.0), 0.0)
    return {name: float(value) for name, value in output.metrics.items()}


@pytest.mark.parametrize("clip_norm", [0.0, 1.0])
def test_norms_of_gradients_parameters_and_steps_by_layer(clip_norm):
    algorithm = Nested()
    kernel = algorithm.blocks[0].kernel.numpy()
    metrics = updated(algorithm, clip_norm=clip_norm)
    # Gradients: 6 and 6 for the inputs' kernel, 2 for its bias; 4, 4 and 2 for the block; nothing else.
    gradients = {"inputs": np.sqrt(76.0), "blocks/0": 6.0, "idle": 0.0}
    scale = RATE * (clip_norm / np.sqrt(76.0 + 36.0) if clip_norm else 1.0)
    after = [3 - 6 * scale, 4 - 6 * scale, 12 - 2 * scale]
    parameters = {
        "inputs": np.linalg.norm(after),
        "blocks/0": np.hypot(np.linalg.norm(kernel - 4 * scale), 2 * scale),
        "idle": 5.0,
    }
    expected = {f"gradient_norm/{name}": norm for name, norm in gradients.items()}
    expected |= {f"parameter_norm/{name}": norm for name, norm in parameters.items()}
    expected |= {f"step_norm/{name}": norm * scale for name, norm in gradients.items()}
    assert {name: value for name, value in metrics.items() if "/" in name} == pytest.approx(
        expected, rel=1e-5
    )
    assert metrics["gradient_norm"] == pytest.approx(np.sqrt(76.0 + 36.0), rel=1e-5)


def test_all_objectives_are_in_them():
    metrics = updated(Pair(), clip_norm=0.0)
    assert metrics["gradient_norm/actor"] == pytest.approx(2 * np.sqrt(2), rel=1e-5)
    assert metrics["gradient_norm/critic"] == pytest.approx(metrics["critic_gradient_norm"], rel=1e-5)
    assert metrics["step_norm/critic"] == pytest.approx(0.5 * metrics["gradient_norm/critic"], rel=1e-5)
    assert {name.partition("/")[2] for name in metrics if "/" in name} == {"actor", "critic"}


def test_they_change_nothing_else():
    def trained(**settings):
        algorithm = Slope()
        found = Trainer(algorithm, TrainerConfig(**settings))
        for slope in (2.0, -1.0, 3.0):
            output = found.update(sample(slope), 0.0)
        metrics = {name: float(value) for name, value in output.metrics.items() if "/" not in name}
        return algorithm.weights.numpy().tolist(), metrics

    assert trained(log_layer_norms=True) == trained()
