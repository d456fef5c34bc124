import numpy as np
import pytest
import tensorflow as tf

from seed_rl.ops.vtrace import vtrace

T, B = 9, 4


def reference(log_rhos, discounts, rewards, values, bootstrap, valid, lambda_, rho_bar, pg_rho_bar, c_bar):
    """IMPALA, equation 1, as the sum of products that it is, one start s after the other."""
    num_steps, batch = log_rhos.shape
    clip = lambda x, bar: x if bar is None else min(x, bar)  # noqa: E731
    vs, advantages = np.zeros((num_steps + 1, batch)), np.zeros((num_steps, batch))
    for b in range(batch):
        value = [*values[:, b], bootstrap[b]]
        rho = [np.exp(log_rhos[t, b]) * valid[t, b] for t in range(num_steps)]
        vs[num_steps, b] = bootstrap[b]
        for s in range(num_steps):
            total = value[s]
            for t in range(s, num_steps):
                product = 1.0
                for i in range(s, t):
                    product *= discounts[i, b] * lambda_ * clip(rho[i], c_bar)
                delta = clip(rho[t], rho_bar) * (rewards[t, b] + discounts[t, b] * value[t + 1] - value[t])
                total += product * delta
            vs[s, b] = total
        for s in range(num_steps):
            target = rewards[s, b] + discounts[s, b] * vs[s + 1, b]
            advantages[s, b] = clip(rho[s], pg_rho_bar) * (target - value[s])
    return vs[:-1], advantages


def random_inputs(seed=0):
    rng = np.random.default_rng(seed)
    done = rng.random((T, B)) < 0.2
    done[3, 0] = True
    normal = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
    return {
        "log_rhos": normal(T, B),
        "discounts": np.where(done, 0, 0.9).astype(np.float32),
        "rewards": normal(T, B),
        "values": normal(T, B),
        "bootstrap_value": normal(B),
    }


@pytest.mark.parametrize("lambda_", [1.0, 0.7, 0.0])
@pytest.mark.parametrize(
    "rho_bar,pg_rho_bar,c_bar", [(1, 1, 1), (None, None, None), (2.0, 3.0, 0.5), (0.5, None, 1.5)]
)
@pytest.mark.parametrize("truncations", [False, True])
def test_equals_the_papers_sum_of_products(lambda_, rho_bar, pg_rho_bar, c_bar, truncations):
    inputs = random_inputs()
    valid = np.random.default_rng(1).random((T, B)) > 0.3 if truncations else np.ones((T, B), bool)
    output = vtrace(
        **inputs,
        valid=valid if truncations else None,
        lambda_=lambda_,
        clip_rho_threshold=rho_bar,
        clip_pg_rho_threshold=pg_rho_bar,
        clip_c_threshold=c_bar,
    )
    vs, advantages = reference(*inputs.values(), valid, lambda_, rho_bar, pg_rho_bar, c_bar)
    np.testing.assert_allclose(output.targets, vs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(output.advantages, advantages, rtol=1e-4, atol=1e-5)


def test_huge_importance_weights_are_clipped_and_nothing_is_differentiated():
    inputs = {k: tf.constant(v) for k, v in random_inputs(4).items()}
    inputs["log_rhos"] = tf.fill([T, B], 1000.0)
    with tf.GradientTape() as tape:
        tape.watch(list(inputs.values()))
        output = vtrace(**inputs)
        total = tf.add_n([tf.reduce_sum(x) for x in output])
    assert np.isfinite(total.numpy())
    assert tape.gradient(total, list(inputs.values())) == [None] * len(inputs)
