"""The kinds of experience and their options. Imports no TensorFlow."""

import dataclasses
from typing import Any

from seed_rl.experience.base import Experience, ExperienceConfig, ReplaySettings, Setup
from seed_rl.options import Options, option


@dataclasses.dataclass(frozen=True)
class FifoConfig(Options, ExperienceConfig):
    """The queue between inference and training."""

    queue_capacity: int | None = option(
        None,
        "Unrolls that may wait for training; when the queue is full, actions wait. None: one batch.",
        at_least=1,
    )
    passes: int = option(
        1,
        "How many times each unroll is trained on; the paper uses 1. V-trace corrects for how far the policy "
        "has moved in the meantime.",
        at_least=1,
    )
    max_policy_lag: int | None = option(
        None,
        "Unrolls are dropped whose first agent step was acted on by weights more than so many updates older "
        "than those that would be trained; the wait in the queue counts. None: all are trained on.",
        at_least=0,
    )

    def make(self, setup: Setup) -> Experience:
        """Creates the queue; see `ExperienceConfig.make`."""
        from seed_rl.experience.fifo import Fifo

        return Fifo(setup, self.queue_capacity, self.passes, self.max_policy_lag)


@dataclasses.dataclass(frozen=True)
class RolloutsConfig(Options, ExperienceConfig):
    """Rollouts: all environments play one unroll, and wait while it is trained on."""

    epochs: int = option(4, "How many times each rollout is trained on, reshuffled each time.", at_least=1)

    def make(self, setup: Setup) -> Experience:
        """Creates the rollouts; see `ExperienceConfig.make`."""
        from seed_rl.experience.fifo import Rollouts

        return Rollouts(setup)


class WholeRolloutsConfig(ExperienceConfig):
    """Rollouts that are trained on once, as a whole. There is nothing to set."""

    def make(self, setup: Setup) -> Experience:
        """Creates the rollouts; see `ExperienceConfig.make`."""
        from seed_rl.experience.fifo import Rollouts

        return Rollouts(setup, is_whole=True)


def _priority_exponent(items: str, default: float, source: str) -> Any:
    return option(
        default,
        f"{items} are drawn in proportion to their priority raised to this power; 0: uniformly. {source}",
        at_least=0,
    )


def _importance_sampling_exponent(default: float, source: str) -> Any:
    return option(
        default,
        f"Exponent of the importance weights that correct for the priorities; 0: no weights. {source}",
        at_least=0,
        at_most=1,
    )


@dataclasses.dataclass(frozen=True)
class ReplayConfig(ReplaySettings):
    """Prioritized replay."""

    priority_exponent: float = _priority_exponent("Unrolls", 0.9, "The paper uses 0.9.")
    importance_sampling_exponent: float = _importance_sampling_exponent(0.6, "The paper uses 0.6.")
    replay_buffer_size: int = option(
        100_000,
        "Maximum number of unrolls in replay; the paper uses 100,000, which takes a big machine with images.",
        at_least=1,
    )
    replay_buffer_min_size: int = option(
        5_000, "Unrolls in replay before training starts; the paper uses 5,000.", at_least=1
    )
    replay_ratio: float = option(
        0.75,
        "How many times an unroll is trained on, on average: unrolls drawn for each one added. The paper "
        "uses 0.75.",
        above=0,
    )
    replay_compression: str = option(
        "zstd",
        "How unrolls in replay are compressed; zstd or none.",
        choices=("zstd", "none"),
        is_plumbing=True,
    )
    replay_threads: int | None = option(
        None,
        "Threads that compress new unrolls and decompress batches; 0: those that insert and draw them. None: "
        "one for each of the machine's cores, at most 5.",
        at_least=0,
        is_plumbing=True,
    )

    def make(self, setup: Setup) -> Experience:
        """Creates the replay; see `ExperienceConfig.make`."""
        from seed_rl.experience.replay import Replay

        return Replay(self, setup, self.replay_compression, self.replay_threads)


@dataclasses.dataclass(frozen=True)
class TransitionReplayConfig(ReplaySettings):
    """Replay of n-step transitions, prioritized or uniform."""

    priority_exponent: float = _priority_exponent("Transitions", 0.5, "Rainbow uses 0.5.")
    importance_sampling_exponent: float = _importance_sampling_exponent(0.4, "Rainbow starts with 0.4.")
    replay_buffer_size: int = option(
        100_000,
        "Maximum number of transitions in replay, split evenly over the environments. DQN uses 1,000,000: "
        "7 GB of frames of 84x84 pixels.",
        at_least=1,
    )
    replay_buffer_min_size: int = option(
        5_000, "Transitions in replay before training starts; DQN uses 50,000.", at_least=1
    )
    replay_ratio: float = option(
        8.0,
        "How many times a transition is trained on, on average: transitions drawn for each one added. DQN "
        "uses 8: a batch of 32 every 4 agent steps.",
        above=0,
    )

    def make(self, setup: Setup) -> Experience:
        """Creates the replay; see `ExperienceConfig.make`."""
        from seed_rl.experience.transitions import TransitionReplay

        return TransitionReplay(self, setup)
