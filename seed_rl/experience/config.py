"""Where an agent's unrolls go: settings that an agent chooses. Imports no TensorFlow."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class FifoConfig:
    """Unrolls go through a bounded queue.

    `capacity`: unrolls waiting for their first pass; None: one training batch. `passes`: times that each is
    trained on.
    """

    capacity: int | None = None
    passes: int = 1

    @property
    def uses(self) -> float:
        """Times that an unroll is trained on."""
        return self.passes


@dataclasses.dataclass(frozen=True)
class ReplayConfig:
    """Unrolls go to prioritized replay.

    Attributes:
      capacity: most unrolls.
      min_size: unrolls before the first batch is drawn.
      replay_ratio: unrolls drawn for each unroll that comes in, on average.
      priority_exponent: an unroll is drawn with a probability in proportion to its priority to this power.
      importance_sampling_exponent: of the weights that make up for it.
      max_bytes: memory limit; None: a share of the machine's memory.
      compression: of the stored steps, one of `experience.compression.NAMES`.
      stored_info: names in `AgentOutput.info` that the loss needs back. The others are gone once the initial
        priority is computed.
      checkpoint: whether checkpoints include the contents.
    """

    capacity: int
    min_size: int
    replay_ratio: float
    priority_exponent: float
    importance_sampling_exponent: float
    max_bytes: int | None = None
    compression: str = "zstd"
    stored_info: tuple[str, ...] = ()
    checkpoint: bool = False

    @property
    def uses(self) -> float:
        """Times that an unroll is trained on, on average."""
        return self.replay_ratio
