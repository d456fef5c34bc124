"""Environment that fails by the environment variable `FAULT`: the `GAME` of the suite gym.

`FAULT` is `METHOD WHAT` or `METHOD WHAT NUMBER`: what a method does wrong, at every call or from this one on,
counted over all environments of the process. `METHOD once NUMBER`: it raises in this one call only.
"""

import os
import pathlib
import threading
from typing import ClassVar

import gymnasium
import numpy as np

GAME = "tests.evaluation.fragile:Fragile-v0"
FAULT, ENDED = "SEED_RL_TEST_FAULT", "SEED_RL_TEST_ENDED"
LENGTH = 5


class InterruptedByItselfError(KeyboardInterrupt):
    """No Ctrl-C of the user."""


class Fragile(gymnasium.Env):
    """Episodes of `LENGTH` agent steps with a reward of 1 each; those with odd seeds are truncated.

    With the environment variable `ENDED`, each end of an episode adds a byte to that file.
    """

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 30}
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    calls: ClassVar[dict[str, int]] = {}

    def __init__(self, **kwargs):
        self._fails("make")
        if "render_mode" in kwargs and "rendering" in os.environ.get(FAULT, ""):
            raise TypeError("__init__() got an unexpected keyword argument 'render_mode'")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._seed, self._played = seed or 0, 0
        fault = self._fails("reset")
        return (None, {}) if fault == "nothing" else (self._observation(), {})

    def step(self, action):
        self._played += 1
        fault = self._fails("step")
        ended, terminates = self._played == LENGTH, self._seed % 2 == 0
        if fault == "nothing":
            return None
        if fault == "short":
            return self._observation(), 1.0, ended, {}
        if fault == "nan":
            return self._observation(), np.nan, ended and terminates, ended and not terminates, {}
        if ended and ENDED in os.environ:
            with pathlib.Path(os.environ[ENDED]).open("a") as file:
                file.write(".")
        return self._observation(), 1.0, ended and terminates, ended and not terminates, {}

    def render(self):
        fault = self._fails("render")
        if fault == "missing":
            return super().render()
        if fault == "nothing":
            return None
        size = (8, self._played + 1, 3) if fault == "sizes" else (8, 8, 4 if fault == "alpha" else 3)
        return np.zeros(size, np.float32 if fault == "floats" else np.uint8)

    def close(self):
        self._fails("close")

    def _observation(self):
        return np.full(3, self._played / 10, np.float32)

    @classmethod
    def _fails(cls, method):
        """Fault of the method in this call, '' for none; raises faults that can be raised."""
        name, what, number = [*os.environ.get(FAULT, "").split(), "", "", ""][:3]
        cls.calls[method] = count = cls.calls.get(method, 0) + 1
        first = int(number or 1)
        if name != method or count < first or ("once" in what and count > first):
            return ""
        if what == "exit":
            raise SystemExit(3)
        if what == "value":
            raise ValueError("two\nlines")
        if what == "interrupt":
            raise InterruptedByItselfError
        if "hang" in what:
            threading.Event().wait()
        if what in ("raise", "once"):
            raise OSError("the engine\nis gone")
        return what


gymnasium.register("Fragile-v0", Fragile)
