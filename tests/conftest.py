"""The order of the tests, and: with SEED_RL_REQUIRE_SUITES=1 (continuous integration) none may be skipped."""

import os

import pytest

# What cannot be installed everywhere: a skip is fine if its reason holds one of these.
_MAY_BE_MISSING = ("deepmind_lab", "GPU", "needs Linux")

_STRICT = os.environ.get("SEED_RL_REQUIRE_SUITES") == "1"


def _refuse_skip(report):
    if not _STRICT or report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return report
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not any(name in reason for name in _MAY_BE_MISSING):
        report.outcome = "failed"
        report.longrepr = f"SEED_RL_REQUIRE_SUITES=1 allows no such skip: {reason}"
    return report


def pytest_collection_modifyitems(items):
    """Files with slow tests come first, so that several processes have something to do until the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)  # In the order of before, but for that.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return _refuse_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return _refuse_skip((yield))
