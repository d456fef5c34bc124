"""Several devices: the CPU's parts, in a process of their own, because TensorFlow is split only once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from seed_rl.algorithms import registry
from tests.waiting import DEADLINE_SECS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

# Actions that no version takes, actions whose label is not their version, and actions of an older version
# than the action before.
MUST_NOT_BE = ("unknown", "wrong_labels", "backwards")


def run(*arguments, module="on_logical_devices"):
    """Last line of the module's output, parsed."""
    found = subprocess.run(
        [sys.executable, "-m", f"tests.devices.{module}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECS,
    )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def all_found(tmp_path_factory):
    """Results for every algorithm, all from one process."""
    return run(str(tmp_path_factory.mktemp("exported")))


@pytest.fixture(params=registry.names())
def found(request, all_found):
    """Results for an algorithm."""
    return all_found[request.param]


def test_several_devices_train_as_one_does(found):
    """Weights, optimizer, statistics, priorities and metrics, with 1 and 2 devices, and some with 4."""
    assert found["compared"] > 200
    assert found["worst"] < 1e-5, found["of"]


def test_training_and_inference_run_where_they_should(found):
    assert found["training"] == ["CPU:1", "CPU:2"]
    assert found["inference"] == ["CPU:3"]


def test_the_exported_policy_is_the_one_that_was_trained(found):
    assert found["difference"] < 1e-5
    assert found["learned"] > 1e-2


def test_no_action_is_of_mixed_weights_or_has_a_wrong_version():
    found = run("4", module="witness")
    assert {name: found[name] for name in MUST_NOT_BE} == dict.fromkeys(MUST_NOT_BE, 0)
    assert found["last"] == [[found["updates"], True]] * 2  # At the end, both copies have the last version.
    assert min(found["versions"]) > 20 and found["unrolls"] > 100


def test_a_copy_that_changes_while_it_acts_is_found_out():
    found = run("4", "hasty", module="witness")
    assert min(found[name] for name in MUST_NOT_BE) > 0, found
