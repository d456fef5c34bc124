"""The dueling Q-network of R2D2: observations, last action and reward in; a value for each action out."""

import keras
import tensorflow as tf

from seed_rl.networks.config import NetworkConfig
from seed_rl.networks.streams import duel, make_stream
from seed_rl.networks.trunk import Trunk
from seed_rl.types import EnvironmentSpec, EnvOutput, Nest


class DuelingNetwork(keras.layers.Layer):
    """The trunk, whose state is the network's state, and two streams with one hidden layer each.

    `Q(x, a) = V(x) + A(x, a) - mean over b of A(x, b)` (Wang et al., 2016, equation 9; R2D2: Kapturowski et
    al., 2019, section 2.3).
    """

    def __init__(
        self,
        config: NetworkConfig,
        env_spec: EnvironmentSpec,
        num_actions: int,
        units: int = 512,
        start_at_zero: bool = False,
    ):
        """Creates the network with all of its variables.

        Args:
          config: the trunk's settings.
          env_spec: spec of the environment.
          num_actions: A.
          units: units of each stream's hidden layer.
          start_at_zero: whether all Q-values start at 0.

        Raises:
          ValueError: the settings do not fit the observation (see `Encoder`).
        """
        super().__init__()
        self.trunk = Trunk(config, env_spec)
        initializers = config.initializer, "zeros" if start_at_zero else "glorot_uniform"
        self._value_hidden, self._value = make_stream(units, 1, *initializers, config.layer_norm)
        self._advantage_hidden, self._advantage = make_stream(
            units, num_actions, *initializers, config.layer_norm
        )
        self.unroll(*self.trunk.example())
        self.built = True

    def unroll(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest) -> tuple[tf.Tensor, Nest]:
        """Q-values float32 `[T, B, A]` at each step, and the state after the last; see `Trunk.unroll`."""
        features, state = self.trunk.unroll(prev_action, env, state)
        value = self._value(self._value_hidden(features))
        advantage = self._advantage(self._advantage_hidden(features))
        return duel(value, advantage), state
