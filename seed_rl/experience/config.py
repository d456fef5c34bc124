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
