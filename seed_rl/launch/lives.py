"""Starts several learners again after one of them was lost, unless that keeps happening."""

from collections.abc import Callable, Sequence

from seed_rl.launch.exits import describe_exit
from seed_rl.launch.restarts import Timing
from seed_rl.launch.supervisor import Loss, Supervisor
from seed_rl.launch.watch import Process
from seed_rl.messages import say

MOST_RESTARTS = 5

# If learners end this often within their first minute, it is no accident (they run out of memory, say).
_MOST_SHORT_LIVES = 3
_SHORT_LIFE_SECS = 60.0


class Lives:
    """Counts the ends of a run's learners, and says when there have been too many.

    Attributes:
      crashes: how many of these ends were crashes.
    """

    def __init__(self) -> None:
        self.crashes = 0
        self._short_in_a_row = 0

    def refusal(self, seconds: float, is_crash: bool) -> str:
        """Counts an end; returns why learners must not start again, or an empty string if they may.

        Args:
          seconds: how long the learner had run.
          is_crash: whether the learner itself failed; a node or a port may be lost any number of times.
        """
        self.crashes += is_crash
        self._short_in_a_row = self._short_in_a_row + 1 if seconds < _SHORT_LIFE_SECS else 0
        if self._short_in_a_row == _MOST_SHORT_LIVES:
            return f"ended {_MOST_SHORT_LIVES} times within a minute"
        return f"crashed {self.crashes} times" if self.crashes > MOST_RESTARTS else ""


def supervise(
    learners: Sequence[Process],
    actors: Sequence[Process],
    timing: Timing | None = None,
    say: Callable[[str], None] = say,
) -> int:
    """Runs until the end, and starts everything again when one of several learners is lost.

    Returns:
      The exit code of the run; see `Supervisor`, also for the arguments.
    """
    lives = Lives()
    while True:
        supervisor = Supervisor(learners, actors, timing, say)
        code = supervisor.run()
        if supervisor.loss is None:
            return code
        refusal = lives.refusal(supervisor.loss.seconds, is_crash=True)
        if refusal:
            say(f"error: the learners {refusal}: {describe_loss(supervisor.loss)}.")
            return code
        say(
            f"{describe_loss(supervisor.loss)}; all learners start again from the last checkpoint (restart "
            f"{lives.crashes} of {MOST_RESTARTS})."
        )


def describe_loss(loss: Loss) -> str:
    """A loss in words: `learner 1 ended with exit code 1 (its last line; its log is run/learner_1.log)`."""
    learner = loss.learner
    line, log = learner.last_line(), f"its log is {learner.log}" if learner.log else ""
    if loss.code < 0 and not line.startswith("seed_rl: "):
        line = ""  # It could not give a reason.
    details = "; ".join(filter(None, (line, log)))
    return f"{learner.name} {describe_exit(loss.code)}" + (f" ({details})" if details else "")
