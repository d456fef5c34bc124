"""Return estimates of an action: the mean, the probabilities of atoms, or quantiles.

Networks give float32 outputs `[B, A, K]`. Each kind defines their meaning, their regression target, and
the loss.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from seed_rl.algorithms.dqn_config import DQNConfig
from seed_rl.networks.q_network import QNetwork
from seed_rl.ops import draws
from seed_rl.ops.rescaling import rescale, undo_rescale
from seed_rl.ops.return_distributions import (
    cross_entropy,
    entropy,
    huber,
    project,
    quantile_huber_loss,
)

# Float32 `[B]` each: what is minimized, and a transition's error, which is also its priority.
Loss = tuple[tf.Tensor, tf.Tensor]


class ScalarReturns:
    """The mean return, possibly rescaled by h: `h(R + gamma h^-1(Q))` (Pohlen et al., 2018, equation 3).

    Other kinds have the same attributes and methods:

    Attributes:
      num_outputs: K, outputs of the network for each action.
      implicit: whether the network gives quantiles at fractions (see `QNetwork.outputs`).
    """

    num_outputs: int = 1
    implicit: bool = False

    def __init__(self, config: DQNConfig):
        self._epsilon = config.value_function_rescaling_epsilon
        self._huber = config.loss == "huber"

    def fractions(self, batch_size: tf.Tensor | int, for_target: bool) -> tf.Tensor | None:
        """The fractions `[B, K]` at which a loss needs quantiles; None where there are none."""
        del batch_size, for_target
        return None

    def q_values(self, network: QNetwork, features: tf.Tensor, noisy: bool) -> tf.Tensor:
        """The values of actions `[B, A]`, from features `[B, F]`."""
        return self.mean(network.outputs(features, noisy=noisy))

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """From outputs `[B, A, K]` to values `[B, A]`, on the scale on which they are learned."""
        return outputs[..., 0]

    def target(self, reward: tf.Tensor, discount: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Target of the outputs for the action that was taken: `[B]`, or `[B, K]` of other kinds.

        `reward` `[B]` is the sum before the bootstrap, and `discount` `[B]` that of what comes after it.
        `outputs` `[B, K]` are the target network's where the bootstrap happens, for the action chosen there.
        """
        value = outputs[:, 0]
        if not self._epsilon:
            return reward + discount * value
        return rescale(reward + discount * undo_rescale(value, self._epsilon), self._epsilon)

    def mean_target(self, target: tf.Tensor) -> tf.Tensor:
        """The mean return of targets, `[B]` in units of reward, for the logs."""
        return undo_rescale(target, self._epsilon) if self._epsilon else target

    def loss(self, outputs: tf.Tensor, fractions: tf.Tensor | None, target: tf.Tensor) -> Loss:
        """The loss of outputs `[B, K]` for the actions taken; no gradient may flow through the target.

        Here Huber or squared; the error is the absolute temporal difference (Schaul et al., 2016).
        """
        difference = target - outputs[:, 0]
        loss = huber(difference) if self._huber else 0.5 * tf.square(difference)
        return loss, tf.abs(difference)


class CategoricalReturns(ScalarReturns):
    """The probabilities of fixed atoms, whose logits the network gives (C51: Bellemare et al., 2017)."""

    def __init__(self, config: DQNConfig):
        super().__init__(config)
        self._atoms = np.linspace(config.v_min, config.v_max, config.num_atoms, dtype=np.float32)
        self.num_outputs = config.num_atoms

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """`sum_i z_i p_i`."""
        return tf.reduce_sum(tf.nn.softmax(outputs) * self._atoms, -1)

    def target(self, reward: tf.Tensor, discount: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """The probabilities `[B, K]` of the atoms, to which those of `R + gamma z` are projected."""
        values = reward[:, tf.newaxis] + discount[:, tf.newaxis] * self._atoms
        return project(values, tf.nn.softmax(outputs), self._atoms)

    def mean_target(self, target: tf.Tensor) -> tf.Tensor:
        """The mean of the projected distribution."""
        return tf.reduce_sum(target * self._atoms, -1)

    def loss(self, outputs: tf.Tensor, fractions: tf.Tensor | None, target: tf.Tensor) -> Loss:
        """Cross entropy; the error is the KL divergence (Hessel et al., 2018, "The integrated agent")."""
        loss = cross_entropy(target, outputs)
        return loss, tf.nn.relu(loss - entropy(target))


class QuantileReturns(ScalarReturns):
    """Quantiles at random fractions (IQN: Dabney et al., 2018).

    In acting, the mean is over evenly spaced fractions, where the paper draws them: so it has no noise.
    """

    implicit = True

    def __init__(self, config: DQNConfig):
        super().__init__(config)
        self._num = {False: config.num_quantiles, True: config.num_target_quantiles}
        number = config.num_acting_quantiles  # The middles of so many equal parts of [0, 1].
        self._acting = ((np.arange(number) + 0.5) / number).astype(np.float32)

    def fractions(self, batch_size: tf.Tensor | int, for_target: bool) -> tf.Tensor:
        """Uniform draws from [0, 1) (section 3.1)."""
        number = self._num[for_target]
        return tf.ensure_shape(draws.uniform(tf.stack([batch_size, number])), [None, number])

    def q_values(self, network: QNetwork, features: tf.Tensor, noisy: bool) -> tf.Tensor:
        """The mean of the quantiles at evenly spaced fractions."""
        fractions = tf.tile(self._acting[tf.newaxis], [tf.shape(features)[0], 1])
        return self.mean(network.outputs(features, fractions, noisy))

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """The mean of the quantiles."""
        return tf.reduce_mean(outputs, -1)

    def target(self, reward: tf.Tensor, discount: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """The quantiles of `R + gamma Z`, `[B, K]` (equation 2)."""
        return reward[:, tf.newaxis] + discount[:, tf.newaxis] * outputs

    def mean_target(self, target: tf.Tensor) -> tf.Tensor:
        """The mean of the target's quantiles."""
        return self.mean(target)

    def loss(self, outputs: tf.Tensor, fractions: tf.Tensor | None, target: tf.Tensor) -> Loss:
        """The quantile Huber loss (equation 3), which is also the error."""
        loss = quantile_huber_loss(outputs, fractions, target)
        return loss, loss


KINDS: dict[str, Callable[[DQNConfig], ScalarReturns]] = {
    "scalar": ScalarReturns,
    "categorical": CategoricalReturns,
    "quantile": QuantileReturns,
}
