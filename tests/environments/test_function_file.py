"""A function's file takes along what its script had: modules beside it, and ids that it had registered.

Fingerprints are equal for what makes equal environments, in any process, and for nothing else.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cloudpickle
import gymnasium
import pytest

from seed_rl.environments import function_file

ROOT = Path(__file__).resolve().parents[2]

BEGIN = """
import functools, itertools, os, sys, threading
import gymnasium
from seed_rl.environments.function_file import contents
class Mine(gymnasium.Env):
    def __init__(self, size=1):
        self.observation_space = gymnasium.spaces.Box(0, 1, (size,))
        self.action_space = gymnasium.spaces.Discrete(2)
"""

END = """
if __name__ == "__main__":
    open("function", "wb").write(contents(make)[0])
"""

# Scripts whose `make` makes an environment with observations of size 3.
SCRIPTS = {
    "a lambda": "make = lambda: Mine(3)",
    "a partial": "make = functools.partial(Mine, 3)",
    "a bound method": """
class Maker:
    def make(self):
        return Mine(3)
make = Maker().make
""",
    "a module beside the script": "import helper; make = helper.make",
    "a module imported in the function": """
def make():
    import helper
    return helper.make()
""",
    "a module elsewhere": "sys.path.append(os.path.abspath('more')); import there; make = there.make",
    "a module that an installed one would hide": "import requests; make = requests.make",
    "an id of the script": """
gymnasium.register("Mine-v0", Mine, kwargs={"size": 3})
make = lambda: gymnasium.make("Mine-v0")
""",
    "an id of the script by name": """
gymnasium.register("Mine-v0", "__main__:Mine", kwargs={"size": 3})
make = functools.partial(gymnasium.make, "Mine-v0")
""",
    "an id of a lambda": """
gymnasium.register("own/Mine-v0", lambda **kwargs: Mine(3))
make = lambda: gymnasium.make("own/Mine-v0")
""",
    "an id of a module": "import helper; make = lambda: gymnasium.make('Helper-v0')",
    "an id beside one that cannot be taken along": """
lock = threading.Lock()
gymnasium.register("Locked-v0", lambda: lock)
gymnasium.register("Mine-v0", Mine, kwargs={"size": 3})
make = lambda: gymnasium.make("Mine-v0")
""",
}

HELPER = f"""
{BEGIN}
gymnasium.register("Helper-v0", "helper:Mine", kwargs={{"size": 3}})
def make():
    return Mine(3)
"""

READ = """
import sys
from seed_rl.environments.function_file import load
envs = [load(sys.argv[1])() for _ in range(2)]
assert [env.observation_space.shape for env in envs] == [(3,)] * 2
"""


def run(directory, *command, **variables):
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, *command], cwd=directory, env=variables, capture_output=True, text=True, timeout=120
    )


def of_each(function, cases, tmp_path_factory):
    """What the function returns for each of the cases, by their names; each gets a directory, `case0`, ...

    They are made here: pytest's first one empties the directory that they are in, so two threads must not.
    """
    directories = [tmp_path_factory.mktemp("case") for _ in cases]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(cases, pool.map(function, directories, cases.values()), strict=True))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Output of writing each script's function in one process, and of calling it in another."""

    def outcome(directory, script):
        (directory / "scripts" / "more").mkdir(parents=True)
        (directory / "more").mkdir()
        for name in ("scripts/helper", "scripts/requests", "more/there"):
            (directory / f"{name}.py").write_text(HELPER)
        (directory / "scripts" / "train.py").write_text(f"{BEGIN}\n{script}\n{END}")
        written = run(directory, "scripts/train.py")
        return written.stderr, run(ROOT, "-c", READ, str(directory / "function")).stderr

    return of_each(outcome, SCRIPTS, tmp_path_factory)


@pytest.mark.parametrize("case", SCRIPTS)
def test_another_process_makes_what_the_script_makes(outcomes, case):
    written, read = outcomes[case]
    assert not read
    assert ("Locked-v0" in written) == ("cannot be taken along" in case)


def test_what_a_function_counts_goes_on_from_environment_to_environment(tmp_path):
    counts = iter([1, 2, 3])
    file = tmp_path / "function"
    file.write_bytes(cloudpickle.dumps(lambda: next(counts)))  # As earlier versions have written it.
    assert [function_file.load(str(file))() for _ in range(3)] == [1, 2, 3]
    file.write_bytes(function_file.contents(lambda: "new")[0])
    os.utime(file, (1, 1))
    assert function_file.load(str(file))() == "new"


def test_a_function_that_cannot_be_pickled_is_refused_in_one_sentence():
    class Locked(gymnasium.Env):
        def __reduce__(self):
            raise TypeError("it has a window")

    env = Locked()
    with pytest.raises(ValueError, match=r"cannot be pickled \(it has a window\); make the environment in"):
        function_file.contents(lambda: env)


SPEED_HELPER = """
import deeper
SPEED = 2
def speed():
    return SPEED * deeper.FACTOR
"""

FINGERPRINTED = '''
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


@pytest.fixture(scope="module")
def fingerprints(tmp_path_factory):
    """The fingerprint of each variant of the script."""

    def found(directory, change):
        """In a process of its own, in another directory and with another order of sets."""
        *file, old, new = change
        texts = {"script.py": FINGERPRINTED, "helper.py": SPEED_HELPER, "deeper.py": "FACTOR = 5\n"}
        (changed,) = file or ["script.py"]
        assert old in texts[changed]
        texts[changed] = texts[changed].replace(old, new)
        for name, text in texts.items():
            (directory / name).write_text(text)
        done = run(directory, "script.py", PYTHONHASHSEED=directory.name.removeprefix("case"))
        assert done.returncode == 0, done.stderr
        return done.stdout

    return of_each(found, {"first": ("", ""), **SAME, **OTHER}, tmp_path_factory)


@pytest.mark.parametrize("case", SAME)
def test_equal_code_has_the_same_fingerprint(fingerprints, case):
    assert fingerprints[case] == fingerprints["first"]


def test_every_change_gives_another_fingerprint(fingerprints):
    different = {fingerprints[case] for case in ("first", *OTHER)}
    assert len(different) == 1 + len(OTHER)
