"""Fingerprints are equal for what makes equal environments, in any process, and for nothing else."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

HELPER = """
import deeper

SPEED = 2

def speed():
    return SPEED * deeper.FACTOR
"""

SCRIPT = '''
import abc, collections, dataclasses, enum, functools, itertools, logging, sys, threading
import gymnasium
import numpy as np
import helper
from seed_rl.environments.function_file import contents

NAMES = {"left", "right", "up", "down", ("a", 1), ("b", 2)}
PORTS = itertools.count(5000)
LOG, LOCK = logging.getLogger("mine"), threading.Lock()
Point = collections.namedtuple("Point", "x y")


class Kind(enum.Enum):
    ONE, TWO = "one", "two"


@dataclasses.dataclass
class Settings:
    size: int = 3
    names: frozenset = frozenset({"x", "y", "z"})
    place: Point = Point(1, 2)


class Base(gymnasium.Env, abc.ABC):
    action_space = gymnasium.spaces.Discrete(2)

    @property
    def reward(self):
        return 1.5


class Mine(Base):
    """A world."""

    table = np.arange(4.0)

    def __init__(self, settings, bonus=0):
        self.settings, self.bonus, self.peer = settings, bonus, Other

    @functools.lru_cache
    def moves(self, name):
        return name in {"left", "right"} and name in NAMES and next(PORTS) and LOG

    @staticmethod
    def scaled(value):
        return helper.speed() * doubled(value)

    def made(self):
        class Inner:
            width = 11
        return Inner, Kind.ONE, functools.partial(doubled, 3), Mine


class Other:
    owner = Mine


def doubled(value):
    return 2 * value


gymnasium.register("Mine-v0", Mine, max_episode_steps=50)
gymnasium.register("Mine-v1", "__main__:Mine")


def maker(bonus):
    return lambda: Mine(Settings(), bonus)


make = maker(4)
print(contents(make)[1])
'''

SAME = {
    "again": ("", ""),
    "lines above": ("NAMES =", "# A comment.\n\nUNUSED = 7\nNAMES ="),
    "a comment inside": ("    def made", "    # Made.\n\n    def made"),
    "a global with the name of an attribute": ("def maker", "settings, moves = 3, 4\n\ndef maker"),
    "another function": ("def maker", "def unused():\n    return 3\n\ndef maker"),
    "a comment in a module": ("helper.py", "SPEED = 2", "SPEED = 2  # m/s"),
}
OTHER = {
    "constant": ("return 2 * value", "return 3 * value"),
    "closure": ("maker(4)", "maker(5)"),
    "default": ("bonus=0", "bonus=1"),
    "method": ("return 1.5", "return 1.6"),
    "attribute": ("arange(4.0)", "arange(5.0)"),
    "space": ("Discrete(2)", "Discrete(3)"),
    "field": ("size: int = 3", "size: int = 4"),
    "set": ('"down"', '"below"'),
    "tuple in a set": ('("b", 2)', '("b", 3)'),
    "set of a constant": ('{"left", "right"}', '{"left", "up"}'),
    "inner class": ("width = 11", "width = 12"),
    "partial": ("doubled, 3", "doubled, 4"),
    "enum": ('"one", "two"', '"one", "three"'),
    "counter": ("count(5000)", "count(5001)"),
    "base": ("class Mine(Base)", "class Mine(gymnasium.Env)"),
    "cached": ("and LOG", "and LOCK"),
    "registration": ("max_episode_steps=50", "max_episode_steps=60"),
    "module": ("helper.py", "SPEED = 2", "SPEED = 3"),
    "module of a module": ("deeper.py", "FACTOR = 5", "FACTOR = 6"),
}


def found(directory: Path, change: tuple[str, ...], seed: int) -> str:
    """The fingerprint in a process of its own, in another directory and with another order of sets."""
    directory.mkdir()
    *file, old, new = change
    for name, text in (("script.py", SCRIPT), ("helper.py", HELPER), ("deeper.py", "FACTOR = 5\n")):
        if name == (file or ["script.py"])[0]:
            assert old in text
            text = text.replace(old, new)
        (directory / name).write_text(text)
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(seed)}
    command = [sys.executable, str(directory / "script.py")]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def fingerprints(tmp_path_factory):
    """The fingerprint of each variant of the script."""
    root = tmp_path_factory.mktemp("variants")
    cases = {"first": ("", ""), **SAME, **OTHER}
    with ThreadPoolExecutor(2) as pool:
        return dict(
            zip(
                cases,
                pool.map(
                    lambda item: found(root / str(item[0]), item[1], item[0]), enumerate(cases.values())
                ),
                strict=True,
            )
        )


@pytest.mark.parametrize("case", SAME)
def test_equal_code_has_the_same_fingerprint(fingerprints, case):
    assert fingerprints[case] == fingerprints["first"]


def test_every_change_gives_another_fingerprint(fingerprints):
    different = {fingerprints[case] for case in ("first", *OTHER)}
    assert len(different) == 1 + len(OTHER)
