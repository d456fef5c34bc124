"""Action distributions, whose parameters are a flat tensor as a policy head outputs it.

`distribution_for(action_spec)` picks one: categoricals for Discrete and MultiDiscrete, and a diagonal normal
for a Box, whose components with bounds are tanh-normal. Parameters are float32 `[..., num_parameters]`;
actions are `[..., *action_spec.shape]`; everything else is float32 `[...]`. Leading dimensions are arbitrary
and may be unknown.
"""

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl.ops import draws
from seed_rl.types import ArraySpec


class Bounds(NamedTuple):
    """Of each component, `[size]`: actions are `middle + half_range * x`.

    middle, half_range: float32. With both bounds, x is in [-1, 1]. Where a bound is missing, any x is
      possible, `half_range` is 1, and `middle` is as close to 0 as it can be 1 inside of the other bound.
    is_bounded: bool, whether there are both bounds, with room between them.
    is_fixed: bool, whether both are the same: `middle`, whatever x is.
    """

    middle: np.ndarray
    half_range: np.ndarray
    is_bounded: np.ndarray
    is_fixed: np.ndarray


def bounds_of(spec: ArraySpec) -> Bounds:
    """The bounds of a Box's components.

    Raises:
      ValueError: a lowest value is above its highest.
    """
    low = np.array((-np.inf,) * spec.size if spec.minimum is None else spec.minimum, np.float32)
    high = np.array((np.inf,) * spec.size if spec.maximum is None else spec.maximum, np.float32)
    if not (low <= high).all():
        index = int(np.argmin(low <= high))
        raise ValueError(
            f"Component {index} of a Box action needs a lowest value that is not above its highest, not "
            f"{low[index]:g} to {high[index]:g}."
        )
    has_both = np.isfinite(low) & np.isfinite(high)
    # TensorFlow takes numbers below `tiny` for 0, and divides by half of the width.
    with np.errstate(invalid="ignore", over="ignore"):
        half_range = 0.5 * high - 0.5 * low
        is_fixed = has_both & (half_range < np.finfo(np.float32).tiny)
        is_bounded = has_both & ~is_fixed
        middle = np.where(has_both, 0.5 * low + 0.5 * high, np.clip(0.0, low + 1.0, high - 1.0))
    return Bounds(
        middle.astype(np.float32),
        np.where(is_bounded, half_range, 1.0).astype(np.float32),
        is_bounded,
        is_fixed,
    )


# Below this, it is computed from its series.
_FAR_OUT = -6.0


def log_normal_cdf(x: tf.Tensor) -> tf.Tensor:
    """Log of the standard normal's distribution function, float32, with a gradient however far out `x` is."""
    far = x < _FAR_OUT
    near = tf.math.log(0.5 * tf.math.erfc(-tf.where(far, 0.0, x) / math.sqrt(2.0)))
    # Mills' ratio for what erfc cannot hold: phi(x) / -x (1 - 1/x^2 + 3/x^4).
    y = tf.where(far, x, _FAR_OUT)
    inverse = 1.0 / tf.square(y)
    series = tf.math.log1p(-inverse + 3.0 * tf.square(inverse))
    return tf.where(far, -0.5 * tf.square(y) - tf.math.log(-y) - 0.5 * math.log(2.0 * math.pi) + series, near)


# Standard deviations stay above this, so that densities and their gradients stay finite.
MIN_STDDEV = 0.01
# A tanh-normal's actions stay this fraction of the half range inside the bounds: atanh in float32 needs it.
BOUND_MARGIN = 1e-6
# Beyond this fraction of the half range, a tanh-normal has one density for all actions: see Normal.
TAIL_START = 0.999
# Nodes of the quadrature for a tanh-normal's entropy: error under 0.01 nats for stddev up to 3.
_NUM_NODES = 32


class Categorical:
    """One of a Discrete action's values or, independently, one for each element of a MultiDiscrete action.

    Parameters are unnormalized log-probabilities (logits), one element's after the other's.
    """

    def __init__(self, spec: ArraySpec):
        """Raises ValueError for specs without bounds or with more than one dimension."""
        if len(spec.shape) > 1:
            raise ValueError(f"Integer actions must have at most one dimension; flatten {spec}.")
        self._spec, self._sizes = spec, spec.num_values
        self.num_parameters = sum(self._sizes)

    def _split(self, parameters: tf.Tensor) -> list[tf.Tensor]:
        """The logits of each element: `[..., number of its values]`."""
        return [parameters] if self._spec.shape == () else tf.split(parameters, self._sizes, -1)

    def _join(self, elements: list[tf.Tensor]) -> tf.Tensor:
        """Actions from their elements, int32 `[...]` each."""
        action = elements[0] if self._spec.shape == () else tf.stack(elements, -1)
        return tf.cast(action, self._spec.dtype)

    def sample(self, parameters: tf.Tensor) -> tf.Tensor:
        """Random actions, in the spec's dtype."""

        def draw(logits: tf.Tensor) -> tf.Tensor:
            flat = tf.reshape(logits, [-1, logits.shape[-1]])
            return tf.reshape(draws.categorical(flat), tf.shape(logits)[:-1])

        return self._join([draw(logits) for logits in self._split(parameters)])

    def mode(self, parameters: tf.Tensor) -> tf.Tensor:
        """The most probable actions."""
        return self._join([tf.argmax(x, -1, output_type=tf.int32) for x in self._split(parameters)])

    def log_prob(self, parameters: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """Log of the actions' probability."""
        elements = [action] if self._spec.shape == () else tf.unstack(action, axis=-1)
        pairs = zip(elements, self._split(parameters), strict=True)
        losses = [tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(x, tf.int32), y) for x, y in pairs]
        return -tf.add_n(losses)

    def entropy(self, parameters: tf.Tensor) -> tf.Tensor:
        """Entropy in nats."""
        terms = [tf.nn.softmax(x) * tf.nn.log_softmax(x) for x in self._split(parameters)]
        return -tf.add_n([tf.reduce_sum(term, -1) for term in terms])

    def kl(self, parameters: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        """KL(parameters || other) in nats."""
        pairs = zip(self._split(parameters), self._split(other), strict=True)
        terms = [tf.nn.softmax(x) * (tf.nn.log_softmax(x) - tf.nn.log_softmax(y)) for x, y in pairs]
        return tf.add_n([tf.reduce_sum(term, -1) for term in terms])


class Normal:
    """A diagonal normal over a Box; parameters are the means, then the raw deviations.

    The standard deviation is a shifted softplus of the raw one: about 1 where the parameter is 0, and never
    below MIN_STDDEV. Components with both bounds are squashed by tanh and stretched to them. One that lacks a
    bound is not squashed: it is normal, around a place inside of the other bound (`Bounds`), and environments
    clip it. A fixed one is a constant, of which there are no parameters.

    Squashed actions stay BOUND_MARGIN inside the bounds. Near a bound, tanh is flat: float32 actions no
    longer determine the base value they came from, and a density computed from them would be meaningless. So
    all actions in a tail, beyond TAIL_START of the half range, have the same density: the tail's probability
    divided by its width.

    Attributes:
      size: number of components that are not fixed.
    """

    def __init__(self, spec: ArraySpec):
        """Raises ValueError if a lowest value is above its highest, or no component can change."""
        bounds = bounds_of(spec)
        self._shape = spec.shape
        self._fixed, self._chosen = np.flatnonzero(bounds.is_fixed), np.flatnonzero(~bounds.is_fixed)
        self._constants = bounds.middle[self._fixed]
        self._middle, self._half_range, self._is_bounded, _ = (x[self._chosen] for x in bounds)
        self.size = len(self._chosen)
        self.num_parameters = 2 * self.size
        if not self.size:
            raise ValueError(
                f"A Box action needs a component whose lowest value is below its highest, not {spec}."
            )
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NUM_NODES)
        self._nodes = nodes.astype(np.float32)
        self._node_weights = (weights / weights.sum()).astype(np.float32)

    def _mean_and_stddev(self, parameters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        mean, raw = tf.split(parameters, 2, -1)
        return mean, tf.nn.softplus(raw + math.log(math.e - 1.0)) + MIN_STDDEV

    def _if_bounded(self, bounded: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        """The first of two `[..., size]` in components with both bounds, the second in others."""
        if self._is_bounded.all():
            return bounded
        return tf.where(self._is_bounded, bounded, other) if self._is_bounded.any() else other

    def _to_action(self, base: tf.Tensor) -> tf.Tensor:
        """From the base normal's `[..., size]` to actions `[..., *shape]`."""
        limit = 1.0 - BOUND_MARGIN
        squashed = self._if_bounded(tf.clip_by_value(tf.tanh(base), -limit, limit), base)
        action = self._middle + self._half_range * squashed
        if len(self._fixed):
            constants = tf.zeros_like(action[..., :1]) + self._constants
            order = np.argsort(np.concatenate([self._chosen, self._fixed]))
            action = tf.gather(tf.concat([action, constants], -1), order, axis=-1)
        return tf.reshape(action, tf.concat([tf.shape(action)[:-1], self._shape], 0))

    def _from_action(self, action: tf.Tensor) -> tf.Tensor:
        """The inverse of `_to_action`."""
        batch_rank, limit = len(action.shape) - len(self._shape), 1.0 - BOUND_MARGIN
        action = tf.reshape(action, tf.concat([tf.shape(action)[:batch_rank], [math.prod(self._shape)]], 0))
        if len(self._fixed):
            action = tf.gather(action, self._chosen, axis=-1)
        scaled = (action - self._middle) / self._half_range
        return self._if_bounded(tf.atanh(tf.clip_by_value(scaled, -limit, limit)), scaled)

    def _log_jacobian(self, base: tf.Tensor) -> tf.Tensor:
        """Log of the slope of `_to_action` at each element, `[..., size]`."""
        # log(1 - tanh(x)^2) in a form that neither overflows nor cancels.
        log_slope = 2.0 * (math.log(2.0) - base - tf.nn.softplus(-2.0 * base))
        return self._if_bounded(log_slope, tf.zeros_like(base)) + tf.math.log(self._half_range)

    def _log_density(self, mean: tf.Tensor, stddev: tf.Tensor, base: tf.Tensor) -> tf.Tensor:
        """Log-density of each element of the actions that base values map to."""
        log_density = -0.5 * tf.square((base - mean) / stddev) - tf.math.log(stddev)
        return log_density - 0.5 * math.log(2.0 * math.pi) - self._log_jacobian(base)

    def sample(self, parameters: tf.Tensor) -> tf.Tensor:
        """Random actions."""
        mean, stddev = self._mean_and_stddev(parameters)
        return self._to_action(mean + stddev * draws.normal(tf.shape(mean)))

    def sample_with_log_prob(self, parameters: tf.Tensor, noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Actions that differentiable operations make from noise, and the log of their density.

        The density follows from the base values that the actions are made of, never from the actions. So it
        and its gradient are exact near a Box's bounds as well (Haarnoja et al., 2018, appendix C), where
        `log_prob` is not. The noise is standard normal, float32 `[..., num_parameters / 2]`.
        """
        mean, stddev = self._mean_and_stddev(parameters)
        base = mean + stddev * noise
        return self._to_action(base), tf.reduce_sum(self._log_density(mean, stddev, base), -1)

    def mode(self, parameters: tf.Tensor) -> tf.Tensor:
        """The actions without exploration: the images of the means."""
        return self._to_action(self._mean_and_stddev(parameters)[0])

    def log_prob(self, parameters: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """Log-density of actions, in their own units; in a tail, the log of the tail's mean density."""
        mean, stddev = self._mean_and_stddev(parameters)
        base, edge = self._from_action(action), math.atanh(TAIL_START)
        in_tail = tf.abs(base) >= edge
        in_tail = self._if_bounded(in_tail, tf.zeros_like(in_tail))
        inside = self._log_density(mean, stddev, tf.where(in_tail, 0.0, base))
        mass = log_normal_cdf((tf.sign(base) * mean - edge) / stddev)
        tail = mass - math.log(1.0 - TAIL_START) - tf.math.log(self._half_range)
        return tf.reduce_sum(tf.where(in_tail, tail, inside), -1)

    def entropy(self, parameters: tf.Tensor) -> tf.Tensor:
        """Differential entropy in nats: the base's plus the mean log-Jacobian (Gauss-Hermite quadrature)."""
        mean, stddev = self._mean_and_stddev(parameters)
        entropy = tf.reduce_sum(tf.math.log(stddev) + 0.5 * math.log(2.0 * math.pi * math.e), -1)
        if not self._is_bounded.any():
            return entropy
        at_nodes = mean[..., tf.newaxis, :] + stddev[..., tf.newaxis, :] * self._nodes[:, np.newaxis]
        log_jacobian = tf.reduce_sum(self._log_jacobian(at_nodes), -1)
        return entropy + tf.reduce_sum(log_jacobian * self._node_weights, -1)

    def kl(self, parameters: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        """KL(parameters || other) in nats, which no invertible map of the actions changes."""
        mean, stddev = self._mean_and_stddev(parameters)
        other_mean, other_stddev = self._mean_and_stddev(other)
        squares = tf.square(stddev / other_stddev) + tf.square((mean - other_mean) / other_stddev)
        return tf.reduce_sum(0.5 * (squares - 1.0) + tf.math.log(other_stddev / stddev), -1)


ActionDistribution = Categorical | Normal


def distribution_for(action_spec: ArraySpec) -> ActionDistribution:
    """Creates the distribution over the actions of a spec.

    Raises:
      ValueError: an integer spec without bounds or with more than one dimension, or a Box with a lowest value
        above its highest or without a component that can change.
    """
    return Categorical(action_spec) if action_spec.is_discrete else Normal(action_spec)
