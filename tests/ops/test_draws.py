import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.ops import draws

LOGITS = np.log(np.tile(np.float32([0.2, 0.8]), (20_000, 1)))
DRAWS = {
    "categorical": (lambda: draws.categorical(LOGITS)[:, 0], 0.8, 0.4),
    "normal": (lambda: draws.normal([20_000]), 0.0, 1.0),
    "uniform": (lambda: draws.uniform([20_000]), 0.5, 12**-0.5),
    "integers": (lambda: draws.uniform([20_000], maxval=5, dtype=tf.int64), 2.0, 2**0.5),
}


@pytest.mark.parametrize("name", DRAWS)
def test_seeded_draws_are_those_of_the_distribution_and_follow_the_seed(name):
    draw, mean, deviation = DRAWS[name]
    found = []
    for seed in ([1, 2], [1, 2], [1, 3]):
        with draws.seeded(tf.constant(seed)):
            found += [draw().numpy().astype(float), draw().numpy().astype(float)]
    for x in found:
        assert x.mean() == pytest.approx(mean, abs=5 * deviation / 20_000**0.5)
        assert x.std() == pytest.approx(deviation, rel=0.05)
    first, second, again, _, other, _ = found
    np.testing.assert_array_equal(first, again)
    for x in (second, other):
        assert abs(np.corrcoef(first, x)[0, 1]) < 0.05


def test_elsewhere_they_follow_the_global_seed():
    found = []
    for _ in range(2):
        keras.utils.set_random_seed(3)
        found += [draw() for draw, *_ in DRAWS.values()]
    for one, other in zip(found[:4], found[4:], strict=True):
        np.testing.assert_array_equal(one, other)
