import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms.base import LOSS, Losses, Objective
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig
from tests.training.slopes import Pair, Slope, sample

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
