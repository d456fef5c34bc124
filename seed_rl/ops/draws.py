"""Random draws: from TensorFlow's generators or, while a compiled function is traced, from its seed."""

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

_of_thread = threading.local()


@contextlib.contextmanager
def seeded(seed: tf.Tensor) -> Iterator[None]:
    """Inside, this thread's draws follow from a seed, int32 `[2]`, and are the same for the same seed."""
    each = (tf.stack([seed[0], seed[1] ^ number]) for number in itertools.count(1))
    outer, _of_thread.seeds = getattr(_of_thread, "seeds", None), each
    try:
        yield
    finally:
        _of_thread.seeds = outer


def categorical(logits: tf.Tensor) -> tf.Tensor:
    """One of N values, from unnormalized log-probabilities `[B, N]`: int32 `[B, 1]`."""
    return _draw(tf.random.categorical, tf.random.stateless_categorical, logits, 1, dtype=tf.int32)


def normal(shape: tf.Tensor) -> tf.Tensor:
    """From the standard normal distribution, float32 of this shape."""
    return _draw(tf.random.normal, tf.random.stateless_normal, shape)


def uniform(shape: tf.Tensor, **kwargs: Any) -> tf.Tensor:
    """As `tf.random.uniform`: from [0, 1) by default."""
    return _draw(tf.random.uniform, tf.random.stateless_uniform, shape, **kwargs)


def _draw(stateful: Any, stateless: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
    seeds = getattr(_of_thread, "seeds", None)
    return stateful(*args, **kwargs) if seeds is None else stateless(*args, seed=next(seeds), **kwargs)
