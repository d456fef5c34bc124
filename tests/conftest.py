"""The tests' order and random seed; SEED_RL_REQUIRE_SUITES=1 (in continuous integration) allows no skips."""

import atexit
import os
import shutil
import sys
import tempfile

import pytest

from seed_rl.loading import without_garbage_collection

# Not everything can be installed everywhere: a skip is fine if its reason contains one of these.
_MAY_BE_MISSING = ("deepmind_lab", "GPU", "needs Linux")

# The key that signs runs is not that of the user.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="seed_rl_state_")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

_STRICT = os.environ.get("SEED_RL_REQUIRE_SUITES") == "1"


def _refuse_skip(report):
    if not _STRICT or report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return report
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not any(name in reason for name in _MAY_BE_MISSING):
        report.outcome = "failed"
        report.longrepr = f"SEED_RL_REQUIRE_SUITES=1 allows no such skip: {reason}"
    return report


@pytest.fixture(autouse=True)
def _seeded():
    """Random weights are the same in every run, in whatever order the tests come."""
    if keras := sys.modules.get("keras"):
        keras.utils.set_random_seed(0)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Imports all tests, and with them TensorFlow, as programs do."""
    with without_garbage_collection():
        return (yield)


def pytest_collection_modifyitems(items):
    """Puts files with slow tests first, so that all of several processes are busy until the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)  # The order is otherwise unchanged.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return _refuse_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return _refuse_skip((yield))
