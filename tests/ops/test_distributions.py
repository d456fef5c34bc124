import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from seed_rl.ops.distributions import MIN_STDDEV, bounds_of, distribution_for, log_normal_cdf
from seed_rl.types import ArraySpec

DISCRETE = ArraySpec((), "int32", (0,), (4,))
MULTI_DISCRETE = ArraySpec((2,), "int32", (0, 0), (2, 3))
BOX = ArraySpec((2,), "float32", (-2.0, 1.0), (2.0, 5.0))
UNBOUNDED = ArraySpec((2,), "float32")
MIXED_BOX = ArraySpec((2, 3), "float32", (-1, -np.inf, 4, 7, 2, -np.inf), (1, np.inf, 4, np.inf, 9, -3))
ALL = [DISCRETE, MULTI_DISCRETE, BOX, UNBOUNDED, MIXED_BOX]


def random_parameters(distribution, *leading, seed=0):
    rng = np.random.default_rng(seed)
    return tf.constant(rng.normal(size=(*leading, distribution.num_parameters)), tf.float32)


def stddev(raw):
    return np.log1p(np.exp(raw + np.log(np.e - 1))) + MIN_STDDEV


@pytest.mark.parametrize("spec", ALL, ids=str)
def test_shapes_and_dtypes_with_any_leading_dimensions(spec):
    distribution = distribution_for(spec)

    @tf.function(input_signature=[tf.TensorSpec([None, None, distribution.num_parameters])])
    def everything(parameters):
        action = distribution.sample(parameters)
        return (
            action,
            distribution.mode(parameters),
            distribution.log_prob(parameters, action),
            distribution.entropy(parameters),
            distribution.kl(parameters, parameters),
        )

    sample, mode, *figures = everything(random_parameters(distribution, 3, 5))
    for action in sample, mode:
        assert action.shape == (3, 5, *spec.shape)
        assert action.dtype.name == spec.dtype
        if spec.minimum is not None:
            both = np.isfinite(spec.minimum) & np.isfinite(spec.maximum)
            flat, low, high = (
                np.reshape(x, (-1, spec.size))[:, both] for x in (action, spec.minimum, spec.maximum)
            )
            assert (flat >= low).all() and (flat <= high).all()
    for figure in figures:
        assert figure.shape == (3, 5)
        assert np.isfinite(figure.numpy()).all()


@pytest.mark.parametrize("spec", ALL, ids=str)
def test_entropy_and_kl_are_means_of_log_probabilities(spec):
    distribution = distribution_for(spec)
    p, q = (random_parameters(distribution, seed=seed) for seed in (1, 2))
    tf.random.set_seed(0)
    many = tf.tile(p[tf.newaxis], [200_000, 1])
    actions = distribution.sample(many)
    log_p = distribution.log_prob(many, actions)
    log_q = distribution.log_prob(tf.tile(q[tf.newaxis], [200_000, 1]), actions)
    np.testing.assert_allclose(distribution.entropy(p), -tf.reduce_mean(log_p), atol=0.02)
    np.testing.assert_allclose(distribution.kl(p, q), tf.reduce_mean(log_p - log_q), atol=0.02, rtol=0.02)
    np.testing.assert_allclose(distribution.kl(p, p), 0, atol=1e-6)


def test_product_of_categoricals_splits_its_logits_in_order():
    distribution = distribution_for(MULTI_DISCRETE)
    logits = np.zeros((1, 7), np.float32)
    logits[0, 2] = logits[0, 3 + 1] = 50.0
    np.testing.assert_array_equal(distribution.mode(logits), [[2, 1]])
    np.testing.assert_array_equal(distribution.sample(logits), [[2, 1]])
    np.testing.assert_allclose(distribution.log_prob(logits, np.array([[2, 1]])), [0], atol=1e-5)


def test_a_mixed_box_is_a_product_of_its_components():
    """A tanh-normal for each component with both bounds, a shifted normal for others, and a constant."""
    distribution = distribution_for(MIXED_BOX)
    parameters = 0.5 * random_parameters(distribution, 7)
    assert distribution.num_parameters == 10
    mean, raw = np.split(parameters.numpy(), 2, -1)
    parts = [ArraySpec((1,), "float32", (low,), (high,)) for low, high in ((-1, 1), (2, 9))]
    bounded = {0: distribution_for(parts[0]), 3: distribution_for(parts[1])}  # By place in the parameters.
    shifts = {1: 0.0, 2: 8.0, 4: -4.0}
    columns, log_prob, entropy = [], np.zeros(7), np.zeros(7)
    for i in range(5):
        part = bounded.get(i, distribution_for(ArraySpec((1,), "float32")))
        own, shift = np.stack([mean[:, i], raw[:, i]], -1), shifts.get(i, 0.0)
        columns.append(part.mode(own).numpy() + shift)
        log_prob += part.log_prob(own, columns[-1] - shift)
        entropy += part.entropy(own)
    columns.insert(2, np.full((7, 1), 4.0))
    np.testing.assert_allclose(distribution.mode(parameters), np.hstack(columns).reshape(7, 2, 3), rtol=1e-5)
    np.testing.assert_allclose(
        distribution.log_prob(parameters, distribution.mode(parameters)), log_prob, rtol=1e-4
    )
    np.testing.assert_allclose(distribution.entropy(parameters), entropy, rtol=1e-4)
    np.testing.assert_array_equal(distribution.sample(parameters)[:, 0, 2], np.full(7, 4.0))


@pytest.mark.parametrize("mean,std", [(0.0, 0.1), (0.5, 1.0), (-2.0, 3.0), (4.0, 2.0)])
def test_tanh_normal_entropy_against_fine_integration(mean, std):
    distribution = distribution_for(ArraySpec((1,), "float32", (-3.0,), (5.0,)))
    raw = np.log(np.expm1(std - MIN_STDDEV)) - np.log(np.e - 1)
    base = mean + std * np.linspace(-9, 9, 200_001)
    weights = np.exp(-0.5 * ((base - mean) / std) ** 2)
    log_slope = np.log(4.0) + 2 * (np.log(2) - base - np.logaddexp(0, -2 * base))
    expected = np.log(std) + 0.5 * np.log(2 * np.pi * np.e) + (weights * log_slope).sum() / weights.sum()
    entropy = distribution.entropy(tf.constant([mean, raw], tf.float32))
    assert float(entropy) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("raw_stddev", [-100.0, 0.0, 3.0])
def test_tanh_normal_is_finite_at_extreme_actions_and_parameters(raw_stddev):
    distribution = distribution_for(BOX)
    actions = tf.constant([[-2.0, 1.0], [2.0, 5.0], [0.0, 3.0], [2.0 - 1e-7, 1.0 + 1e-7], [9.0, -9.0]])
    for mean in (-50.0, 0.0, 50.0):
        parameters = tf.tile([[mean, mean, raw_stddev, raw_stddev]], [len(actions), 1])
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            log_prob = distribution.log_prob(parameters, actions)
            total = tf.reduce_sum(log_prob + distribution.entropy(parameters))
        assert np.isfinite(log_prob.numpy()).all()
        assert np.isfinite(tape.gradient(total, parameters).numpy()).all()
        sample = distribution.sample(parameters)
        assert np.isfinite(distribution.log_prob(parameters, sample).numpy()).all()


def test_saturated_tanh_normals_are_one_policy_and_do_not_push_each_other():
    distribution = distribution_for(BOX)
    far, farther = (tf.tile([[mean, -mean, 0.0, 0.0]], [8, 1]) for mean in (60.0, 90.0))
    actions = distribution.sample(far)
    with tf.GradientTape() as tape:
        tape.watch(farther)
        ratio = distribution.log_prob(farther, actions) - distribution.log_prob(far, actions)
    np.testing.assert_allclose(ratio, 0.0, atol=1e-5)
    np.testing.assert_allclose(tape.gradient(ratio, farther), 0.0, atol=1e-5)


@pytest.mark.parametrize(
    "spec,sentence",
    [
        (ArraySpec((), "int32"), "bounded integer"),
        (ArraySpec((2, 2), "int32", (0,) * 4, (1,) * 4), "at most one dimension"),
        (ArraySpec((1,), "float32", (1.0,), (1.0,)), "below its highest"),
        (ArraySpec((2,), "float32", (0.0, 2.0), (1.0, 1.0)), "Component 1 .* 2 to 1"),
    ],
)
def test_unsupported_specs_are_refused(spec, sentence):
    with pytest.raises(ValueError, match=sentence):
        distribution_for(spec)


@pytest.mark.parametrize("mean", [0.3, 3.0, 6.0, -12.0])
def test_the_density_of_a_sample_and_its_gradient_are_exact_up_to_the_bounds(mean):
    """Against float64: there, the action of a tail still determines the base value that it came from."""
    distribution = distribution_for(ArraySpec((1,), "float32", (-2.0,), (4.0,)))
    raw, noise, half_range = -0.5, 0.7, 3.0

    def slow(mean, raw):
        deviation = stddev(raw)
        base = mean + deviation * noise
        # log(1 - tanh(x)^2) = -2 log cosh(x)
        log_slope = -2 * (np.logaddexp(base, -base) - np.log(2))
        return scipy.stats.norm.logpdf(noise) - np.log(deviation) - log_slope - np.log(half_range)

    parameters = tf.constant([[mean, raw]], tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(parameters)
        action, log_prob = distribution.sample_with_log_prob(parameters, tf.constant([[noise]]))
    assert -2.0 < action < 4.0
    np.testing.assert_allclose(log_prob, [slow(mean, raw)], rtol=1e-5)
    step = 1e-4
    expected = [
        (slow(mean + step, raw) - slow(mean - step, raw)) / (2 * step),
        (slow(mean, raw + step) - slow(mean, raw - step)) / (2 * step),
    ]
    np.testing.assert_allclose(tape.gradient(log_prob, parameters)[0], expected, rtol=1e-3)


@pytest.mark.parametrize("x", [-300.0, -30.0, -6.01, -5.99, -1.0, 0.0, 3.0, 20.0])
def test_log_normal_cdf_and_its_slope(x):
    point = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(point)
        value = log_normal_cdf(point)
    expected = scipy.stats.norm.logcdf(x)
    np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-6)
    slope = np.exp(scipy.stats.norm.logpdf(x) - expected)
    np.testing.assert_allclose(tape.gradient(value, point), slope, rtol=2e-3, atol=1e-6)


def test_each_component_has_its_own_bounds():
    inf, most = np.inf, np.finfo(np.float32).max
    bounds = bounds_of(ArraySpec((6,), "float32", (0, 100, -inf, -inf, 3, -most), (8, inf, -7, inf, 3, most)))
    np.testing.assert_array_equal(bounds.middle, [4, 101, -8, 0, 3, 0])
    np.testing.assert_array_equal(bounds.half_range, np.float32([4, 1, 1, 1, 1, most]))
    np.testing.assert_array_equal(bounds.is_bounded, [1, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(bounds.is_fixed, [0, 0, 0, 0, 1, 0])
