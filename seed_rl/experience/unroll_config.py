"""How experience is cut into unrolls. Imports no TensorFlow."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class UnrollConfig:
    """How experience is cut; all numbers are in agent steps.

    A stored unroll is `burn_in + length + 1` steps long. With the default period, consecutive unrolls overlap
    by `burn_in + 1` steps.

    Attributes:
      length: T, transitions that are trained on.
      burn_in: steps before them that only bring the recurrent state up to date.
      period: steps from the start of one unroll to the start of the next; None: `length`. With 1, an unroll
        starts at every step, so an unroll of length n is an n-step transition.
      stagger: whether environment i skips its first `i * period / num_envs` steps once, so that the unrolls
        of all environments do not end at the same moment.
      keeps_state: whether an unroll includes the recurrent state before its first step. Without, a sample's
        `initial_state` is an empty tuple.

    Raises:
      ValueError: a number is too low.
    """

    length: int
    burn_in: int = 0
    period: int | None = None
    stagger: bool = True
    keeps_state: bool = True

    def __post_init__(self) -> None:
        if self.length < 1 or self.burn_in < 0 or self.every < 1:
            raise ValueError(
                f"{self} is not valid; length and period must be at least 1, and burn_in at least 0."
            )

    @property
    def stored_steps(self) -> int:
        """S: agent steps in a stored unroll."""
        return self.burn_in + self.length + 1

    @property
    def every(self) -> int:
        """The period as a number, also where it is the default."""
        return self.length if self.period is None else self.period
