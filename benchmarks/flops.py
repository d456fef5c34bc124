"""Floating-point operations: how many a function of TensorFlow needs, and a product to compare with."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

# A product of square matrices of this size keeps all cores busy with arithmetic rather than with memory.
_SIZE = 2048


def operations(function: Callable[..., Any], *arguments: Any) -> float:
    """The floating-point operations of one call, as TensorFlow's profiler counts them.

    It counts matrix products and convolutions, with those of gradients, and most arithmetic by element. What
    a loop does is counted once.
    """
    graph = tf.function(function, autograph=False).get_concrete_function(*arguments).graph
    builder = tf.compat.v1.profiler.ProfileOptionBuilder
    options = builder(builder.float_operation()).with_empty_output().build()
    level = tf.compat.v1.logging.get_verbosity()
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    try:
        return float(tf.compat.v1.profiler.profile(graph, options=options).total_float_ops)
    finally:
        tf.compat.v1.logging.set_verbosity(level)


def matrix_product(dtype: str) -> tuple[Callable[[], Any], float]:
    """A function that multiplies large matrices, and the floating-point operations of a call."""
    square = tf.cast(tf.random.normal([_SIZE, _SIZE]), dtype)
    product = tf.function(lambda: tf.reduce_sum(tf.matmul(square, square)), autograph=False)
    return lambda: product().numpy(), 2.0 * _SIZE**3


def gradients(algorithm: Any) -> Callable[[Any], Sequence[Any]]:
    """A function of a sample: the gradients of all objectives."""

    def compute(sample: Any) -> Sequence[Any]:
        with tf.GradientTape(persistent=True) as tape:
            losses = algorithm.losses(sample).by_objective
        return [tape.gradient(losses[name], own.variables) for name, own in algorithm.objectives.items()]

    return compute
