import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms.actor_critic import EntropyCost, RewardScale
from seed_rl.algorithms.actor_critic_config import ActorCriticConfig
from seed_rl.types import EnvOutput

T, B, DISCOUNTING = 6, 3, 0.9


def unrolls(count, seed=0):
    """`count` unrolls `[T + 1, B]` one after the other; each begins with the last step of the one before."""
    rng = np.random.default_rng(seed)
    length = count * T + 1
    reward = rng.normal(3.0, 5.0, (length, B)).astype(np.float32)
    done = rng.random((length, B)) < 0.2
    done[0], reward[0] = True, 0.0
    env = EnvOutput(reward, done, np.zeros_like(done), ())
    return env, [
        tf.nest.map_structure(lambda x, i=i: tf.constant(x[i * T : (i + 1) * T + 1]), env)
        for i in range(count)
    ]


def sums_of(env):
    """Sums that the statistics must be of: for each step but the first, the episode's discounted rewards."""
    sums = np.zeros_like(env.reward, dtype=np.float64)
    for b in range(B):
        total = 0.0
        for t in range(len(env.reward)):
            total = total * DISCOUNTING + env.reward[t, b]
            sums[t, b] = total
            if env.done[t, b]:
                total = 0.0
    return sums[1:]


def test_statistics_are_those_of_the_whole_stream_though_it_comes_in_unrolls():
    scale = RewardScale(DISCOUNTING)
    env, parts = unrolls(4)
    state = scale.initial_state(B)
    for part in parts:
        scale.observe(part, state)
        for t in range(T):
            state = scale.next_state(tf.nest.map_structure(lambda x, t=t: x[t], part), state)
    rewards = tf.constant([[1.0, -2.0]])
    np.testing.assert_allclose(scale.scale(rewards), rewards / sums_of(env).std(), rtol=1e-4)


def test_rewards_stay_as_they_are_before_the_first_statistics_and_where_all_are_alike():
    scale = RewardScale(DISCOUNTING)
    assert scale.scale(tf.constant([5.0])) == 5.0
    _, (part,) = unrolls(1)
    scale.observe(part._replace(reward=tf.zeros([T + 1, B])), scale.initial_state(B))
    assert scale.scale(tf.constant([5.0])) == 5.0


def entropy_cost_of(**options):
    return EntropyCost(ActorCriticConfig(entropy_cost=0.01, **options))


@pytest.mark.parametrize(("final", "costs"), [(None, (0.01, 0.01, 0.01)), (0.002, (0.01, 0.006, 0.002))])
def test_a_cost_is_fixed_or_a_line_over_the_run(final, costs):
    entropy_cost = entropy_cost_of(final_entropy_cost=final)
    for progress, cost in zip((0.0, 0.5, 1.0), costs, strict=True):
        entropy_cost.advance(tf.constant(progress))
        assert float(entropy_cost.cost()) == pytest.approx(cost)
        assert float(entropy_cost.loss(tf.constant(2.0))) == pytest.approx(-2 * cost)
    assert entropy_cost.trainable_variables == []


@pytest.mark.parametrize("entropy,direction", [(0.5, 1), (1.5, -1)])
def test_the_cost_rises_below_the_target_and_falls_above(entropy, direction):
    """The policy only feels the bonus."""
    entropy_cost, entropy = entropy_cost_of(target_entropy=1.0), tf.constant(entropy)
    (variable,) = entropy_cost.trainable_variables
    before = float(entropy_cost.cost())
    assert before == pytest.approx(0.01)
    with tf.GradientTape() as tape:
        tape.watch(entropy)
        loss = entropy_cost.loss(entropy)
    of_policy, of_cost = tape.gradient(loss, [entropy, variable])
    assert float(of_policy) == pytest.approx(-0.01)
    variable.assign_sub(0.1 * of_cost)
    assert (float(entropy_cost.cost()) - before) * direction > 0
