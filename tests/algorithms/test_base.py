"""Requirements on an algorithm: one sentence for its author for each that it breaks."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms.base import LOSS, Algorithm, Losses, check_algorithm, check_losses
from seed_rl.algorithms.registry import AlgorithmError
from seed_rl.types import AgentOutput, EnvOutput, Sample
from tests.algorithms.incomplete import Complete, Still

T, B = 2, 5


def broken(attribute, value):
    """The complete algorithm with another attribute."""
    algorithm = type("Broken", (Complete,), {attribute: value})()
    vars(algorithm).pop(attribute, None)
    return algorithm


class Returns(Complete):
    """Returns zeros of these shapes, for objectives of these names."""

    def __init__(self, by_objective, priority, names):
        super().__init__()
        self._returned, self._names = (by_objective, priority), names

    @property
    def objectives(self):
        return dict.fromkeys(self._names, Complete.objectives.fget(self)[LOSS])

    def losses(self, sample):
        by_objective, priority = self._returned
        made = {name: tf.zeros(shape) for name, shape in by_objective.items()}
        return Losses(made, None if priority is None else tf.zeros(priority), {})


def batch():
    steps = np.zeros((T + 1, B), np.float32)
    return Sample(steps, EnvOutput(*4 * [steps]), AgentOutput(steps, {}), (), tf.ones([B]))


def check(by_objective, priority=None, names=None):
    algorithm, sample = Returns(by_objective, priority, names or tuple(by_objective)), batch()
    check_losses(algorithm, algorithm.losses(sample), sample)


def test_a_number_for_each_unroll_is_right():
    for by_objective, priority in (({LOSS: [B]}, None), ({"actor": [B], "critic": [B]}, [B])):
        check(by_objective, priority)


IS_NONE = r".*is not a seed_rl\.algorithms\.base\.Algorithm"
SHAPE = r"Returns\.losses must return '{}' of shape \[B\] = \[5\].*not of shape {}\.$".format
NAMES = r"Returns\.losses must return a loss for each objective \(loss\), not for {}\.$".format
REFUSED = [
    *((check_algorithm, [found], type(found).__name__ + IS_NONE) for found in (None, Still(), Complete)),
    *(
        (check_algorithm, [broken(attribute, value)], rf"Broken\.{attribute} must {words}$")
        for attribute, value, words in (
            ("experience", None, r"be a seed_rl\.experience\.base\.ExperienceConfig, not None\."),
            ("experience", "replay", r"be a seed_rl\.experience\.base\.ExperienceConfig, not 'replay'\."),
            ("unroll", 20, r"be a seed_rl\.experience\.base\.UnrollConfig, not 20\."),
            ("policy", "none", r"be a seed_rl\.algorithms\.policy\.Policy, not 'none'\."),
            ("objectives", {}, r"name at least one objective\."),
        )
    ),
    (check, [{LOSS: [T, B]}], SHAPE(LOSS, r"\[2, 5\]")),
    (check, [{LOSS: []}], SHAPE(LOSS, r"\[\]")),
    (check, [{LOSS: [B + 1]}], SHAPE(LOSS, r"\[6\]")),
    (check, [{"actor": [B], "critic": [T + 1, B]}], SHAPE("critic", r"\[3, 5\]")),
    (check, [{LOSS: [B]}, [T, B]], SHAPE("priority", r"\[2, 5\]")),
    (check, [{LOSS: [B]}, []], SHAPE("priority", r"\[\]")),
    (check, [{"los": [B]}, None, (LOSS,)], NAMES("los")),
    (check, [{}, None, (LOSS,)], NAMES("none")),
    (check, [{LOSS: [B], "extra": [B]}, None, (LOSS,)], NAMES("extra, loss")),
]


@pytest.mark.parametrize(("call", "arguments", "sentence"), REFUSED)
def test_what_an_author_breaks_is_named_in_one_sentence(call, arguments, sentence):
    with pytest.raises(AlgorithmError, match=f"^{sentence}") as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)


def test_a_protocols_own_defaults_are_enough():
    """The author of an algorithm may leave these out."""
    algorithm, sample = Complete(), batch()
    assert isinstance(algorithm, Algorithm) and algorithm.num_eval_envs == 0
    assert algorithm.observe(sample) is None
    assert algorithm.after_update(tf.constant(1, tf.int64), tf.constant(0.0)) is None
    np.testing.assert_array_equal(algorithm.initial_priority(sample.env, sample.agent), np.ones(B))
    arguments = (tf.zeros([3], tf.int32), sample.env, (), tf.range(3))
    assert algorithm.policy.act_greedy(*arguments)[0].action.numpy().tolist() == [0, 0, 0]
