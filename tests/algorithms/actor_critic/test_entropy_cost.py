import pytest
import tensorflow as tf

from seed_rl.algorithms.actor_critic.entropy_cost import EntropyCost


def test_a_fixed_cost_has_nothing_to_learn():
    entropy_cost = EntropyCost(0.01, None, 10.0)
    assert entropy_cost.trainable_variables == []
    assert float(entropy_cost.cost()) == pytest.approx(0.01)
    assert float(entropy_cost.loss(tf.constant(2.0))) == pytest.approx(-0.02)


@pytest.mark.parametrize("entropy,direction", [(0.5, 1), (1.5, -1)])
def test_the_cost_rises_below_the_target_and_falls_above(entropy, direction):
    entropy_cost = EntropyCost(0.01, target_entropy=1.0, adjustment_speed=10.0)
    (variable,) = entropy_cost.trainable_variables
    before = float(entropy_cost.cost())
    assert before == pytest.approx(0.01)
    with tf.GradientTape() as tape:
        loss = entropy_cost.loss(tf.constant(entropy))
    variable.assign_sub(0.1 * tape.gradient(loss, [variable])[0])
    assert (float(entropy_cost.cost()) - before) * direction > 0


def test_the_policy_only_feels_the_bonus():
    entropy_cost = EntropyCost(0.01, target_entropy=1.0, adjustment_speed=10.0)
    entropy = tf.constant(0.3)
    with tf.GradientTape() as tape:
        tape.watch(entropy)
        loss = entropy_cost.loss(entropy)
    assert float(tape.gradient(loss, entropy)) == pytest.approx(-0.01)
