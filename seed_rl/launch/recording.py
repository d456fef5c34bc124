"""Records videos of a run while it trains. No TensorFlow."""

import sys
import threading
from pathlib import Path

from seed_rl.launch.child import ACTOR_ENV, Child
from seed_rl.messages import warn
from seed_rl.runs.layout import RunDirectory

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
