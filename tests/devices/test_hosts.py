"""Two learner hosts, each a process of its own, train as one device does."""

import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from seed_rl.algorithms import registry
from tests.devices.on_logical_devices import alone
from tests.waiting import DEADLINE_SECS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def free_addresses(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    return found


@pytest.mark.parametrize("name", registry.names())
def test_two_hosts_train_as_one_device_does(name, tmp_path):
    """Weights, optimizer, statistics, priorities and metrics after 20 updates."""
    addresses, outputs = free_addresses(2), [tmp_path / f"{index}.npz" for index in range(2)]
    hosts = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.devices.on_hosts", name, str(i), ",".join(addresses), str(output)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for i, output in enumerate(outputs)
    ]
    try:
        said = [host.communicate(timeout=DEADLINE_SECS)[0] for host in hosts]
    finally:
        for host in hosts:
            host.kill()
    assert [host.returncode for host in hosts] == [0, 0], said
    expected = alone(name)
    first, second = (np.load(output) for output in outputs)
    assert set(first) == set(second) == set(expected)
    for key, value in expected.items():
        found = first[key]
        if key.startswith("priority"):  # Each host has those of its part of the batch.
            found = np.concatenate([found, second[key]])
        else:
            np.testing.assert_array_equal(found, second[key], err_msg=key)
        np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-5, err_msg=key)
