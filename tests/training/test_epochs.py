"""Epochs of minibatches on a rollout."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from seed_rl.algorithms.base import LOSS, Epochs, Losses
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig
from seed_rl.types import Sample
from tests.training.slopes import Slope, sample

B = 4


class Recorder(Slope):
    """Notes, by minibatch, which numbers it was trained on; each unroll has become two numbers."""

    def __init__(self, passes, limit=None):
        super().__init__()
        self.epochs = Epochs(passes, limit)
        self.seen_numbers = []
        self.observed_after = tf.Variable(0, dtype=tf.int64, trainable=False)

    def prepare(self, rollout):
        """2 * B numbers, 0, 1, 2, ..."""
        numbers = tf.range(2 * B, dtype=tf.float32)
        return Sample((), (), (), numbers, tf.ones_like(numbers))

    def observe(self, rollout):
        self.observed_after.assign(self.seen)
        super().observe(rollout)

    def losses(self, minibatch):
        tf.py_function(lambda x: self.seen_numbers.append(x.numpy().tolist()), [minibatch.initial_state], [])
        loss = minibatch.initial_state * tf.reduce_sum(self.weights)
        return Losses({LOSS: loss}, None, {"number": tf.reduce_mean(minibatch.initial_state)})


def trained(algorithm, batch_size, updates=1):
    trainer = Trainer(algorithm, TrainerConfig(batch_size=batch_size, learning_rate=0.1))
    outputs = [trainer.update(sample(1.0), 0.0) for _ in range(updates)]
    return trainer, outputs


@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_each_pass_uses_everything_once_in_another_order(batch_size):
    algorithm = Recorder(passes=3)
    trainer, (output,) = trained(algorithm, batch_size)
    per_pass = B // batch_size
    assert [len(x) for x in algorithm.seen_numbers] == [2 * batch_size] * 3 * per_pass
    passes = np.concatenate(algorithm.seen_numbers).reshape(3, 2 * B).tolist()
    assert [sorted(x) for x in passes] == [list(range(2 * B))] * 3
    assert len({tuple(x) for x in passes}) == 3
    assert trainer.updates == trainer.iteration.numpy() == algorithm.seen.numpy() == 3 * per_pass
    assert algorithm.observed.numpy() == 2 * B  # Once, after the last pass.
    assert algorithm.observed_after.numpy() == trainer.updates
    assert output.metrics["number"].numpy() == pytest.approx(np.mean(range(2 * B)))
    assert output.metrics["epochs"].numpy() == 3 and output.priority is None
    assert {"loss", "gradient_norm", "learning_rate"} <= set(output.metrics)


def test_shuffling_leaves_nothing_behind_in_a_run_with_a_seed():
    """Each operation outside a graph would take the next seed, and TensorFlow would keep it for ever."""
    tf.random.set_seed(1)
    trainer, _ = trained(Recorder(passes=2), 2)
    seeds = context.context()._rng
    before = seeds.getstate()
    trainer.update(sample(1.0), 0.0)
    assert seeds.getstate() == before


@pytest.mark.parametrize(("highest", "passes"), [(3.4, 1), (3.6, 5)])
def test_a_metric_above_its_limit_leaves_out_the_other_passes(highest, passes):
    """The mean over any pass is 3.5."""
    algorithm = Recorder(passes=5, limit=("number", highest))
    trainer, (output, _) = trained(algorithm, 2, updates=2)
    assert output.metrics["epochs"].numpy() == passes
    assert trainer.updates == 2 * passes * 2
