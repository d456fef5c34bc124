"""Where an agent's unrolls go: settings that an agent chooses. Imports no TensorFlow."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class FifoConfig:
    """Unrolls go through a bounded queue and are trained on once.

    `capacity` in unrolls; None: one training batch.
    """

    capacity: int | None = None
