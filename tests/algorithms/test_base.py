"""Requirements on an algorithm: one sentence for its author for each that it breaks."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms.base import LOSS, Algorithm, Losses, check_algorithm, check_losses
from seed_rl.algorithms.registry import AlgorithmError
from seed_rl.types import AgentOutput, EnvOutput, Sample
from tests.algorithms.incomplete import Complete, Still

T, B = 2, 5


def refusal(check, *arguments):
    """The one sentence."""
    with pytest.raises(AlgorithmError) as caught:
        check(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("found", [None, Still(), Complete])
def test_what_is_no_algorithm_is_refused(found):
    sentence = refusal(check_algorithm, found)
    assert sentence.startswith(type(found).__name__)
    assert "is not a seed_rl.algorithms.base.Algorithm" in sentence


def broken(attribute, value):
    """The complete algorithm with another attribute."""
    algorithm = type("Broken", (Complete,), {attribute: value})()
    vars(algorithm).pop(attribute, None)
    return algorithm


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("experience", None, "must be a seed_rl.experience.base.ExperienceConfig, not None."),
        ("experience", "replay", "must be a seed_rl.experience.base.ExperienceConfig, not 'replay'."),
        ("unroll", 20, "must be a seed_rl.experience.base.UnrollConfig, not 20."),
        ("policy", "none", "must be a seed_rl.algorithms.policy.Policy, not 'none'."),
        ("objectives", {}, "must name at least one objective."),
    ],
)
def test_what_an_algorithm_needs_is_named(attribute, value, words):
    assert refusal(check_algorithm, broken(attribute, value)) == f"Broken.{attribute} {words}"


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


@pytest.mark.parametrize(
    ("arguments", "name", "shape"),
    [
        (({LOSS: [T, B]},), LOSS, [T, B]),
        (({LOSS: []},), LOSS, []),
        (({LOSS: [B + 1]},), LOSS, [B + 1]),
        (({"actor": [B], "critic": [T + 1, B]},), "critic", [T + 1, B]),
        (({LOSS: [B]}, [T, B]), "priority", [T, B]),
        (({LOSS: [B]}, []), "priority", []),
    ],
)
def test_the_sentence_names_the_method_and_both_shapes(arguments, name, shape):
    sentence = refusal(check, *arguments)
    assert sentence.startswith(f"Returns.losses must return '{name}' of shape [B] = [{B}]")
    assert sentence.endswith(f"not of shape {shape}.")


@pytest.mark.parametrize(
    ("returned", "wanted", "words"),
    [
        ({"los": [B]}, (LOSS,), "(loss), not for los."),
        ({}, (LOSS,), "(loss), not for none."),
        ({LOSS: [B], "extra": [B]}, (LOSS,), "(loss), not for extra, loss."),
    ],
)
def test_the_names_must_be_those_of_the_objectives(returned, wanted, words):
    sentence = refusal(check, returned, None, wanted)
    assert sentence == f"Returns.losses must return a loss for each objective {words}"


def test_a_protocols_own_defaults_are_enough():
    """The author of an algorithm may leave these out."""
    algorithm, sample = Complete(), batch()
    assert isinstance(algorithm, Algorithm) and algorithm.num_eval_envs == 0
    assert algorithm.observe(sample) is None
    assert algorithm.after_update(tf.constant(1, tf.int64), tf.constant(0.0)) is None
    np.testing.assert_array_equal(algorithm.initial_priority(sample.env, sample.agent), np.ones(B))
    arguments = (tf.zeros([3], tf.int32), sample.env, (), tf.range(3))
    assert algorithm.policy.act_greedy(*arguments)[0].action.numpy().tolist() == [0, 0, 0]
