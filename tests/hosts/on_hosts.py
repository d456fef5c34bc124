"""Run in a process of its own for each learner host: trains on its part of recorded batches.

python -m tests.hosts.on_hosts INDEX ADDRESSES DIRECTORY

The directory has the batches of each algorithm, and gets what this host's updates leave behind.
"""

import pickle
import sys
from pathlib import Path

import numpy as np

from seed_rl.devices.replicas import Replicas, along_batch
from seed_rl.hosts.reductions import Collective
from tests.devices.on_logical_devices import B, trained


def part_of(batch, index, count):
    """A host's part of a recorded batch."""
    return along_batch(lambda x, axis: np.split(x, count, axis)[index], batch)


def main(index, addresses, directory):
    index, addresses = int(index), addresses.split(",")
    strategy = Collective(addresses, index).strategy
    replicas = Replicas(("CPU:0",), strategy=strategy, num_hosts=len(addresses))
    for path in sorted(Path(directory).glob("*.batches")):
        batches = [part_of(batch, index, len(addresses)) for batch in pickle.loads(path.read_bytes())]
        assert batches[0].weight.shape == (B // len(addresses),)
        np.savez(path.with_suffix(f".{index}.npz"), **trained(path.stem, replicas, batches)[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
