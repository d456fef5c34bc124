"""tests/conftest.py: in continuous integration a test that could have run must not be skipped."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")

IN_A_TEST = "import pytest\ndef test_a(): pytest.skip({reason!r})"
IN_A_MODULE = "import pytest\npytest.importorskip('no_such_package', reason={reason!r})\ndef test_a(): pass"
BY_A_MARK = "import pytest\n@pytest.mark.skipif(True, reason={reason!r})\ndef test_a(): pass"


def exit_code(directory, source, require):
    shutil.copy(CONFTEST, directory)
    (directory / "test_sample.py").write_text(source + "\ndef test_b(): pass\n")
    env = {key: value for key, value in os.environ.items() if key != "SEED_RL_REQUIRE_SUITES"}
    env |= {"SEED_RL_REQUIRE_SUITES": "1"} if require else {}
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(directory), str(directory)]
    return subprocess.run(command, env=env, cwd=directory, timeout=120, capture_output=True).returncode


@pytest.mark.parametrize("source", [IN_A_TEST, IN_A_MODULE, BY_A_MARK])
def test_skips_fail_where_suites_are_required(tmp_path, source):
    assert exit_code(tmp_path, source.format(reason="no engine"), require=True) != 0


@pytest.mark.parametrize("source", [IN_A_TEST, IN_A_MODULE, BY_A_MARK])
def test_skips_are_fine_elsewhere_and_for_what_cannot_be_installed(tmp_path, source):
    assert exit_code(tmp_path, source.format(reason="no engine"), require=False) in (0, 5)
    assert exit_code(tmp_path, source.format(reason="needs deepmind_lab"), require=True) in (0, 5)
