"""What the threads of a learner wait for, and the CPU of its run: the figures that show what bounds it.

Imports no TensorFlow.
"""

from seed_rl.inference.figures import BatchFigures
from seed_rl.reporting.cpu import RunCpu
from seed_rl.waits import INTAKE_FOR_UNROLLS, PREFETCH_FOR_EXPERIENCE, TRAINING_FOR_BATCH, Waits


class Usage:
    """Collects these figures; docs/working_with_runs.md says what each of them means.

    Attributes:
      batches: of inference.
      training: of the training thread.
      prefetch: of the thread that moves batches to the device; none in a synchronous run.
      intake: of the thread that inserts into replay, if there is one.
    """

    def __init__(self) -> None:
        """Starts counting."""
        self.batches = BatchFigures()
        self.training = Waits(TRAINING_FOR_BATCH)
        self.prefetch, self.intake = Waits(PREFETCH_FOR_EXPERIENCE), Waits(INTAKE_FOR_UNROLLS)
        self._cpu = RunCpu()

    def take(self) -> dict[str, float]:
        """The figures since the last call, by plain name."""
        waits = self.training.take() | self.prefetch.take() | self.intake.take()
        return self.batches.take() | waits | self._cpu.take()
