"""An environment with a bug in one of its methods: the next way to fail is one more function.

`Broken-v0` has the arguments `bug`, a name in `BUGS`, and `method`: make, reset or step.
"""

import inspect
import time
from typing import NamedTuple

import gymnasium
import numpy as np


class Bug(NamedTuple):
    """A function that fails; text of the sentence, and number of causes in the traceback."""

    function: object
    says: str
    causes: int = 0


def raises():
    {}["missing"]


def refuses():
    raise ValueError("no such level")


def chained():
    try:
        {}["missing"]
    except KeyError as error:
        raise RuntimeError("no key") from error


def handles():
    try:
        {}["missing"]
    except KeyError:
        raise RuntimeError("no key")  # noqa: B904


def lacks_a_file():
    open("assets/level1.map")  # noqa: SIM115


def in_a_library():
    np.linalg.inv(np.zeros((2, 2)))


def exits():
    raise SystemExit(3)


def hangs():
    time.sleep(1e6)


BUGS = {
    "raises": Bug(raises, "raised KeyError: 'missing'"),
    "refuses": Bug(refuses, "raised ValueError: no such level"),
    "chained": Bug(chained, "raised RuntimeError: no key", 1),
    "handles": Bug(handles, "raised RuntimeError: no key", 1),
    "lacks_a_file": Bug(
        lacks_a_file,
        "raised FileNotFoundError: [Errno 2] No such file or directory: 'assets/level1.map' (in the dir",
    ),
    "in_a_library": Bug(in_a_library, "raised LinAlgError: Singular matrix"),
    "exits": Bug(exits, "raised SystemExit: 3"),
    "hangs": Bug(hangs, "did not return within 1 s"),
}


def place(bug):
    """The number of the line on which a function fails: the last one."""
    lines, first = inspect.getsourcelines(BUGS[bug].function)
    return first + len(lines) - 1


class Broken(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, bug, method, render_mode=None):
        self.bug, self.method = BUGS[bug].function, method
        if method == "make":
            self.bug()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.method == "reset":
            self.bug()
        return np.zeros(2, np.float32), {}

    def step(self, action):
        if self.method == "step":
            self.bug()
        return np.zeros(2, np.float32), 1.0, False, False, {}


gymnasium.register("Broken-v0", Broken)
