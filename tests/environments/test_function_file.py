"""A function's file takes along what its script had: modules beside it, and ids that it had registered."""

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


def run(directory, *command):
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *command], cwd=directory, env=variables, capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Output of writing each script's function in one process, and of calling it in another."""

    def outcome(script):
        directory = tmp_path_factory.mktemp("caller")
        (directory / "scripts" / "more").mkdir(parents=True)
        (directory / "more").mkdir()
        for name in ("scripts/helper", "scripts/requests", "more/there"):
            (directory / f"{name}.py").write_text(HELPER)
        (directory / "scripts" / "train.py").write_text(f"{BEGIN}\n{script}\n{END}")
        written = run(directory, "scripts/train.py")
        read = run(ROOT, "-c", READ, str(directory / "function"))
        return written.stderr, read.stderr

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(SCRIPTS, pool.map(outcome, SCRIPTS.values()), strict=True))


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
    with pytest.raises(
        ValueError, match=r"cannot be pickled \(it has a window\); make the environment inside"
    ):
        function_file.contents(lambda: env)
