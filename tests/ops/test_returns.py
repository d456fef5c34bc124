import numpy as np
import pytest
import tensorflow as tf

from seed_rl.ops.returns import gae, n_step_return, n_step_targets

T, B = 9, 4


def reference(rewards, discounts, values, valid, lambda_):
    """The exponentially weighted sum of temporal differences, one start after the other."""
    advantages = np.zeros((T, B))
    for b in range(B):
        for start in range(T):
            weight = 1.0
            for t in range(start, T):
                if not valid[t, b]:
                    break
                delta = rewards[t, b] + discounts[t, b] * values[t + 1, b] - values[t, b]
                advantages[start, b] += weight * delta
                weight *= discounts[t, b] * lambda_
    return advantages


def inputs(seed=0):
    rng = np.random.default_rng(seed)
    done, valid = rng.random((T, B)) < 0.2, rng.random((T, B)) > 0.2
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    return normal(T, B), np.where(done, 0, 0.9).astype(np.float32), normal(T + 1, B), valid


@pytest.mark.parametrize("lambda_", [1.0, 0.7, 0.0])
@pytest.mark.parametrize("seed", range(3))
def test_equals_the_sum_of_temporal_differences(lambda_, seed):
    arrays = inputs(seed)
    assert not arrays[3].all()
    values = tf.constant(arrays[2])
    with tf.GradientTape() as tape:
        tape.watch(values)
        got = gae(arrays[0], arrays[1], values, arrays[3], lambda_)
    np.testing.assert_allclose(got, reference(*arrays, lambda_), rtol=1e-5, atol=1e-5)
    assert tape.gradient(got, values) is None


BATCH, GAMMA = 50, 0.9


def slow(rewards, discounts, values, cut, n):
    """Walks each sum forward, transition by transition."""
    targets = np.zeros((T, BATCH))
    for b in range(BATCH):
        for t in range(T):
            total, factor, step = 0.0, 1.0, t
            while step < min(t + n, T) and not cut[step, b]:
                total += factor * rewards[step, b]
                factor *= discounts[step, b]
                step += 1
            targets[t, b] = total + factor * values[step, b]
    return targets


@pytest.mark.parametrize("n", [1, 2, 5, T, T + 3])
def test_against_numpy_with_episode_ends_anywhere(n):
    rng = np.random.default_rng(n)
    rewards, values = rng.normal(size=(T, BATCH)), rng.normal(size=(T + 1, BATCH))
    discounts = np.where(rng.random((T, BATCH)) < 0.2, 0.0, GAMMA)
    cut = rng.random((T, BATCH)) < 0.15
    arrays = [tf.constant(x, tf.float32) for x in (rewards, discounts, values)]
    found = n_step_targets(*arrays, tf.constant(cut), n)
    np.testing.assert_allclose(found, slow(rewards, discounts, values, cut, n), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [1, 2, 5, T])
def test_the_parts_of_a_target_make_up_the_target(n):
    rng = np.random.default_rng(n)
    rewards, values = rng.normal(size=(n, BATCH)), rng.normal(size=(n + 1, BATCH))
    discounts = np.where(rng.random((n, BATCH)) < 0.2, 0.0, GAMMA)
    cut = rng.random((n, BATCH)) < 0.2
    rewards, discounts, values = (tf.constant(x, tf.float32) for x in (rewards, discounts, values))
    found = n_step_return(rewards, discounts, tf.constant(cut))
    target = found.reward + found.discount * tf.gather(tf.transpose(values), found.step, batch_dims=1)
    expected = n_step_targets(rewards, discounts, values, tf.constant(cut), n)[0]
    np.testing.assert_allclose(target, expected, rtol=1e-5, atol=1e-6)
    first_cut = np.where(cut.any(0), cut.argmax(0), n)
    np.testing.assert_array_equal(found.step, first_cut)
    assert (found.discount.numpy() == 0).any() and len(set(found.step.numpy())) > 1
