"""Which tests run, and in which order: the settings in pyproject.toml and tests/conftest.py."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.selection import mostly_slow

ROOT = Path(__file__).resolve().parents[1]

FAST = "def test_fast(): pass\n"
MANY = """
import pytest
from tests.selection import mostly_slow

@pytest.mark.parametrize("a", mostly_slow([1, 2, 3], [2]))
def test_one(a): pass

@pytest.mark.parametrize("a,b", mostly_slow([(1, 2), (3, 4)], [(3, 4)]))
def test_two(a, b): pass
"""
SLOW = FAST + "import pytest\n@pytest.mark.slow\ndef test_slow(): pass\n"


@pytest.fixture
def collect(tmp_path):
    """The tests that pytest collects from two files, with our settings and these arguments."""
    (tmp_path / "test_a.py").write_text(FAST)
    (tmp_path / "test_b.py").write_text(SLOW)
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)

    def run(*args):
        command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path]
        command += ["-p", "no:cacheprovider", "-q", "--collect-only", *args, tmp_path]
        done = subprocess.run(command, cwd=tmp_path, timeout=120, capture_output=True, text=True)
        return done.returncode, [line for line in done.stdout.splitlines() if "::" in line]

    return run


def test_slow_tests_run_only_when_they_are_asked_for(collect):
    exit_code, fast = collect()
    assert (exit_code, sorted(fast)) == (0, ["test_a.py::test_fast", "test_b.py::test_fast"])
    assert collect("-m", "slow") == (0, ["test_b.py::test_slow"])


def test_the_default_selection_has_a_few_of_many_parameters(collect, tmp_path):
    (tmp_path / "test_a.py").write_text(MANY)
    (tmp_path / "test_b.py").unlink()
    assert collect() == (0, ["test_a.py::test_one[2]", "test_a.py::test_two[3-4]"])
    assert len(collect("-m", "")[1]) == 5


def test_a_fast_parameter_must_be_one_of_all():
    with pytest.raises(AssertionError, match=r"\[3\] are not all among"):
        mostly_slow([1, 2], [3])


def test_files_with_slow_tests_come_first_and_stay_together(collect):
    assert collect("-m", "") == (
        0,
        ["test_b.py::test_fast", "test_b.py::test_slow", "test_a.py::test_fast"],
    )


def test_a_marker_that_nobody_registered_is_an_error(collect, tmp_path):
    (tmp_path / "test_c.py").write_text(SLOW.replace("mark.slow", "mark.slwo"))
    assert collect()[0] == 2
