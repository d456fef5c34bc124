"""Two learner hosts, each a process of its own, train as one device does.

python -m tests.hosts.test_reductions INDEX ADDRESSES DIRECTORY runs one of them.
"""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from seed_rl.algorithms import registry
from seed_rl.devices.replicas import Replicas, along_batch
from seed_rl.hosts.reductions import Collective
from tests.devices.on_logical_devices import B, samples, trained
from tests.ports import HOSTS, free_ports
from tests.waiting import DEADLINE_SECS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def run_host(index, addresses, directory):
    """Trains on this host's part of each batch in the directory, which gets what the updates leave behind."""
    index, count = int(index), len(addresses.split(","))
    strategy = Collective(addresses.split(","), index).strategy
    replicas = Replicas(("CPU:0",), strategy=strategy, num_hosts=count)

    def part(batch):
        return along_batch(lambda x, axis: np.split(x, count, axis)[index], batch)

    for path in sorted(Path(directory).glob("*.batches")):
        batches = [part(batch) for batch in pickle.loads(path.read_bytes())]
        assert batches[0].weight.shape == (B // count,)
        np.savez(path.with_suffix(f".{index}.npz"), **trained(path.stem, replicas, batches)[0])


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """The recorded batches of every algorithm, and what each of two hosts has made of its part."""
    batches, directory = {name: samples(name) for name in registry.names()}, tmp_path_factory.mktemp("hosts")
    for name, of_algorithm in batches.items():
        (directory / f"{name}.batches").write_bytes(pickle.dumps(of_algorithm))
    addresses = ",".join(f"127.0.0.1:{port}" for port in free_ports(2, HOSTS))
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.hosts.test_reductions", str(index), addresses, str(directory)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index in range(2)
    ]
    try:
        said = [process.communicate(timeout=DEADLINE_SECS)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], said
    return {
        name: (of_algorithm, *(np.load(directory / f"{name}.{index}.npz") for index in range(2)))
        for name, of_algorithm in batches.items()
    }


@pytest.mark.parametrize("name", registry.names())
def test_two_hosts_train_as_one_device_does(name, hosts):
    """Weights, optimizer, statistics, priorities and metrics after 20 updates."""
    batches, first, second = hosts[name]
    expected, *_ = trained(name, Replicas(), batches)
    assert set(first) == set(second) == set(expected)
    for key, value in expected.items():
        found = first[key]
        if key.startswith("priority"):  # Each host has those of its part of the batch.
            found = np.concatenate([found, second[key]])
        else:
            np.testing.assert_array_equal(found, second[key], err_msg=key)
        np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-5, err_msg=key)


if __name__ == "__main__":
    run_host(*sys.argv[1:])
