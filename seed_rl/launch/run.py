"""A run under a launcher: its directory, its learner or learners, and its actors, until training is over.

* An actor that crashes is restarted, with growing delays if it keeps crashing. If it crashes again and again
  before its first finished episode, the run ends.
* An actor that reports a usage error, for instance because the learner refused it, ends the run.
* When the only learner dies, the run ends with the learner's exit code, and its own error is the last output.
* Of several learner hosts, each notices by itself that another one is lost. When all of them have ended, all
  learners and actors start again from the last checkpoint.
* Ctrl-C and the other `signals.STOP_SIGNALS` are passed to the learners as one SIGTERM, at which they write a
  checkpoint; then the actors end. A second signal ends everything at once. The exit code is the signal's
  (130, 143, ...), or 0 if training was already complete.
* An error of the launcher itself ends the run as a signal does, and is then raised.
"""

import collections
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from seed_rl.flags.errors import USAGE_EXIT_CODE
from seed_rl.launch.child import ACTOR_ENV, Child
from seed_rl.launch.watch import (
    ChildEnded,
    Event,
    Restarts,
    Signalled,
    Timing,
    Watch,
    describe_exit,
    shell_code,
)
from seed_rl.messages import EPISODE, say, warn
from seed_rl.runs.layout import RunDirectory
from seed_rl.signals import STOP_CODES, STOP_SIGNALS

# Several learners are started again so often, with growing delays.
MOST_RESTARTS = 5

# Restarts of an actor in a row after which it has finished no episode; its environment has a fault.
MOST_FRUITLESS_RESTARTS = 3

# Exit codes of a learner after which it is not started again: complete, a wrong flag, stopped on request.
_FINAL = (0, USAGE_EXIT_CODE, *STOP_CODES)


def supervise(
    learners: Sequence[Child],
    actors: Sequence[Child],
    timing: Timing = Timing(),  # noqa: B008 (immutable)
) -> int:
    """Runs until the end, and starts everything again when one of several learners is lost.

    There is one learner per learner host, the one that keeps the run directory first. Returns the exit code
    of the run.
    """
    restarts = Restarts(timing)
    while True:
        life = Life(learners, actors, timing)
        code = life.run()
        if not life.loss:
            return code
        if restarts.total == MOST_RESTARTS:
            say(f"error: after {MOST_RESTARTS} restarts of the learners, {life.loss}.")
            return code
        delay = restarts.delay(learners[0].seconds)
        number = f"restart {restarts.total} of {MOST_RESTARTS}"
        say(f"{life.loss}; all learners start again from the last checkpoint ({number}).")
        time.sleep(delay)


class Life:
    """Runs learners and actors until the learners have ended; needs the main thread, for the signals.

    Attributes:
      loss: how one of several learners failed, in words, if all may resume from the last checkpoint.
    """

    def __init__(self, learners: Sequence[Child], actors: Sequence[Child], timing: Timing):
        """Starts nothing yet; see `supervise`."""
        self.loss = ""
        self._learners, self._actors, self._first = learners, actors, learners[0]
        self._timing = timing
        self._watch = Watch(timing=timing)
        self._fruitless = collections.Counter[Child]()  # Failures of actors since a finished episode.

    @property
    def asked_to_stop(self) -> bool:
        """Whether a signal has arrived."""
        return self._watch.stop.is_set()

    def run(self) -> int:
        """Starts everything, waits for the end, and returns the exit code of the run."""
        with self._watch.running([*self._learners, *self._actors]):
            return next(code for event in self._watch if (code := self._react(event)) is not None)

    def _react(self, event: Event) -> int | None:
        """Handles an event; returns the exit code of the run once it is known."""
        match event:
            case Signalled(number):
                ended = self._ended_learner()
                return self._stop(number) if ended is None else self._learner_ended(ended)
            case ChildEnded(child, code) if child in self._learners:
                # Another one than the first ends with 0 when training is complete; the first one is saving.
                return self._learner_ended(child) if child is self._first or code != 0 else None
            case ChildEnded(actor, code) if code == USAGE_EXIT_CODE:  # A restart cannot help.
                return self._given_up(actor, code)
            case ChildEnded(actor, code) if code != 0:  # 0: training is complete.
                self._fruitless[actor] = self._fruitless[actor] + 1 if actor.reported(EPISODE) is None else 0
                if self._fruitless[actor] > MOST_FRUITLESS_RESTARTS:
                    return self._given_up(actor, code)
                self._watch.restart(event)
        return None

    def _ended_learner(self) -> Child | None:
        """A learner whose end is that of the run; None if there is none."""
        if self._first.poll() is not None:
            return self._first
        return next((learner for learner in self._learners if learner.poll()), None)

    def _learner_ended(self, learner: Child) -> int:
        """Ends the run after a learner has ended."""
        several = len(self._learners) > 1
        if several:
            learner = self._let_all_learners_end(learner)
        code = 0 if self._first.poll() == 0 else learner.poll()
        assert code is not None
        if several and code not in _FINAL and not self.asked_to_stop:
            self.loss = str(ChildEnded(learner, code))
        if code == 0:
            self._watch.wait(self._actors, self._timing.finish_grace)
        self._end_actors()
        if not self.loss and code < 0:  # Killed: it could not report anything itself.
            say(f"{learner.name} {describe_exit(code)}.")
        elif code == USAGE_EXIT_CODE and self._first.poll() != USAGE_EXIT_CODE:
            self._blame(learner)
        return shell_code(code)

    def _let_all_learners_end(self, ended: Child) -> Child:
        """Waits for the other learners after one has ended, then ends those that are left.

        They end by themselves: they detect the loss, or all have agreed to stop. But while they wait for
        one that never came, they would wait for as long as --host_timeout_secs.

        Returns the one whose end is the reason for that of the others. Those that notice the loss of one that
        was killed may be seen to end before it.
        """
        timing, final = self._timing, ended.poll() in _FINAL
        if not self.asked_to_stop:
            is_wrong = ended.poll() == USAGE_EXIT_CODE
            self._watch.wait(self._learners, timing.verdict_grace if is_wrong else timing.checkpoint_grace)
        killed = (learner for learner in self._learners if (learner.poll() or 0) < 0)
        reason = ended if final else next(killed, ended)  # Before any of them is killed here.
        self._watch.end(
            self._learners, timing.checkpoint_grace if self.asked_to_stop else timing.terminate_grace
        )
        return reason

    def _given_up(self, actor: Child, code: int) -> int:
        """Ends the run after an actor gave up; if the learner has ended, too, its exit code counts."""
        self._watch.wait(self._learners, self._timing.verdict_grace)
        ended = self._ended_learner()
        if ended is not None:
            return self._learner_ended(ended)
        if self.asked_to_stop:
            return self._stop(self._watch.stop.count)
        self._watch.end(self._learners, self._timing.checkpoint_grace)
        self._end_actors()
        if code == USAGE_EXIT_CODE:
            self._blame(actor)
        else:
            times = f"{self._fruitless[actor]} times before its first finished episode"
            say(f"error: {actor.name} failed {times}; the last time, {ChildEnded(actor, code)}.")
        return shell_code(code)

    def _blame(self, child: Child) -> None:
        """Reports the child that ended the run, with the reason in the last line of its log."""
        reason = child.last_line().removeprefix("seed_rl: error: ") or "it gave no reason."
        say(f"error: {child.name} ended the run: {reason}")

    def _stop(self, signals: int) -> int:
        """Stops the run after this number of signals: first the learner, then the actors."""
        stop, grace = self._watch.stop, self._timing.checkpoint_grace
        say("stopping; the learner writes a checkpoint (Ctrl-C again ends everything at once).")
        in_time = self._watch.end(self._learners, grace)
        if not in_time and stop.count > signals:
            say("stopping at once; the run resumes from its last complete checkpoint.")
            return stop.exit_code
        self._end_actors()
        code = self._first.poll()
        assert code is not None
        if not in_time:
            say(
                f"the learner did not end within {grace:g} s and was killed; the run resumes from its last "
                "complete checkpoint."
            )
            return 1
        if code in STOP_CODES:
            say("stopped; the same command resumes it.")
            return stop.exit_code
        if -code in STOP_SIGNALS:
            say("stopped before the learner was ready; there was nothing to save.")
            return stop.exit_code
        return shell_code(code)

    def _end_actors(self) -> None:
        self._watch.end(self._actors, self._timing.terminate_grace)


# Training goes first.
_LOW_PRIORITY = ("nice", "-n", "5")
_POLL_SECS = 0.5


class Recorder:
    """Records an episode of the newest checkpoint every few minutes, in a process of its own, until `stop`.

    The first video that fails is the last one, with a warning; the run goes on.
    """

    def __init__(self, logdir: Path, minutes: float):
        """Starts to wait for the first time."""
        self._run, self._seconds = RunDirectory(logdir), 60 * minutes
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="recorder", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends a recording that is in progress; a second call does nothing."""
        self._stopping.set()
        self._thread.join()

    def _keep(self) -> None:
        last = None
        while not self._stopping.wait(self._seconds):
            newest = next(iter(self._run.checkpoints.prefixes()), None)
            if newest is None or newest == last:
                continue
            last = newest
            child = Child("the recording", self._command(newest), self._run.videos_log, ACTOR_ENV)
            self._run.videos.mkdir(exist_ok=True)
            child.start()
            while child.poll() is None and not self._stopping.wait(_POLL_SECS):
                pass
            code = child.poll()
            child.kill()  # It writes a video under a temporary name, so none is left incomplete.
            if code:
                warn(f"no more videos of this run: {child.last_line()}")
                return

    def _command(self, checkpoint: Path) -> list[str]:
        """Evaluates an episode with this checkpoint, or the next one if this one is deleted by then.

        The code that the run names is what this user trains with.
        """
        video = self._run.videos / f"{checkpoint.name}.mp4"
        flags = ("--checkpoint=last", f"--record={video}", f"--output={video.with_suffix('.json')}")
        options = ("--episodes=1", "--num_envs=1", "--overwrite", "--trust_code")
        command = [*_LOW_PRIORITY, sys.executable, "-m", "seed_rl", "evaluate", str(self._run.path)]
        return [*command, *flags, *options]
