import json
import os
import re
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from seed_rl.flags.errors import UsageError, brief_usage_errors, require_package, usage_errors

ROOT = Path(__file__).resolve().parents[2]


def run(body):
    """A process whose main has this body."""
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    code = f"from seed_rl.flags.errors import *\ndef main(argv):\n{indented}\nrun_main(main, ['name', 'x'])"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", code], env=env, timeout=120, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("body", "code", "output"),
    [
        ("raise UsageError('Turn it round.')", 2, r"seed_rl: error: Turn it round\.\n"),
        ("raise ValueError('broken')", 1, "Traceback.*ValueError: broken\n"),
        ("raise KeyboardInterrupt", 130, ""),
        ("return 7 if argv == ['name', 'x'] else 1", 7, ""),
        ("pass", 0, ""),
    ],
)
def test_the_end_of_a_main(body, code, output):
    done = run(body)
    assert (done.returncode, done.stdout) == (code, "")
    assert re.fullmatch(output, done.stderr, re.DOTALL)


@pytest.mark.parametrize("error", [ValueError, ImportError, UsageError])
def test_errors_of_the_stage_become_usage_errors(error):
    with pytest.raises(UsageError, match=r"^Choose another\.$"):
        with usage_errors():
            raise error("Choose another.")


def test_other_errors_of_the_stage_stay_what_they_are():
    with pytest.raises(KeyError):
        with usage_errors():
            raise KeyError("bug")


def _refuse(*causes):
    """Raises a UsageError whose message is the last one's, each error because of the one before."""
    for i, cause in enumerate(causes):
        cause.__cause__ = causes[i - 1] if i else None
    with usage_errors():
        raise causes[-1]


@pytest.mark.parametrize(
    ("raised", "kept"),
    [
        ([UsageError("Turn it.")], None),
        ([ValueError("Turn it.")], None),
        ([KeyError("k"), json.JSONDecodeError("no", "{", 1), ValueError("Turn it.")], json.JSONDecodeError),
        ([KeyError("map of theirs"), ValueError("Turn it."), ValueError("Turn it.")], KeyError),
    ],
)
def test_at_the_python_interface_a_usage_error_has_its_sentence_and_the_causes_that_add_to_it(raised, kept):
    with pytest.raises(UsageError, match=r"^Turn it\.$") as error:
        brief_usage_errors(_refuse)(*raised)
    assert type(error.value.__cause__) is (kept or type(None))
    assert error.value.__suppress_context__
    own = [frame for frame in traceback.extract_tb(error.tb) if frame.filename != __file__]
    assert len(own) == 1


def test_a_missing_package_names_the_extra():
    require_package("sys", "learner")
    with pytest.raises(UsageError, match=r"no_such_thing is not installed; .*-m pip install .*\[learner\]'"):
        require_package("no_such_thing", "learner")
