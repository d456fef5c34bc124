"""Settings of PQN. Imports no TensorFlow."""

import dataclasses
from typing import Any, ClassVar

from seed_rl.algorithms.options import Q_LEARNING, AlgorithmOptions, Kind
from seed_rl.experience.experience_config import RolloutsConfig
from seed_rl.networks.networks_config import FeedForwardConfig
from seed_rl.options import option, part


@dataclasses.dataclass(frozen=True)
class NormalizedNetworkConfig(FeedForwardConfig):
    """Settings of PQN's network, which layer normalization keeps stable without a target network."""

    layer_norm: bool = option(
        True,
        "Whether each layer is normalized before its activation (Ba et al., 2016). PQN needs it: without "
        "it, Q-learning without a target network may diverge.",
    )


@dataclasses.dataclass(frozen=True)
class PQNConfig(AlgorithmOptions):
    """PQN (Gallici et al., "Simplifying Deep Temporal Difference Learning", 2024)."""

    title: ClassVar[str] = "PQN"
    actions: ClassVar[tuple[str, ...]] = ("discrete",)
    needs: ClassVar[str] = "one discrete action"

    net: NormalizedNetworkConfig = part(NormalizedNetworkConfig)
    rollouts: RolloutsConfig = part(RolloutsConfig)
    unroll_length: int = option(
        32, "T: transitions that each environment contributes to a rollout, in agent steps.", at_least=1
    )
    discounting: float = option(0.99, "Discount (gamma) per agent step.", at_least=0, at_most=1)
    lambda_: float = option(
        0.65, "Lambda of the returns; the paper uses 0.65 on Atari and MinAtar.", at_least=0, at_most=1
    )
    max_abs_reward: float = option(
        0.0, "Rewards are clipped to this absolute value in the loss; 0 turns clipping off.", at_least=0
    )
    initial_epsilon: float = option(
        1.0, "Probability of a random action at the start.", at_least=0, at_most=1
    )
    final_epsilon: float = option(
        0.001, "Probability of a random action in the end; the paper uses 0.001.", at_least=0, at_most=1
    )
    epsilon_fraction: float = option(
        0.1, "Fraction of the run over which epsilon falls; the paper uses 0.1.", at_least=0, at_most=1
    )

    @classmethod
    def small_defaults(cls, kind: Kind, choice: str) -> dict[str, Any]:
        """See `AlgorithmOptions`."""
        own = {"unroll_length": 32, "batch_share": 4, "epochs": 2, "final_epsilon": 0.02}
        clipped = {"max_abs_reward": 1.0} if kind.observation == "images" else {}
        return {**Q_LEARNING, **own, "epsilon_fraction": 0.2, **clipped}
