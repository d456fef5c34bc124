"""Run in a process of its own for each learner host: trains on its part of recorded batches.

python -m tests.devices.on_hosts ALGORITHM INDEX ADDRESSES OUTPUT
"""

import sys

import numpy as np

from seed_rl.devices.hosts import Collective
from seed_rl.devices.replicas import along_batch
from tests.devices.on_logical_devices import B, samples, trained_on


def part_of(batch, index, count):
    """A host's part of a recorded batch."""
    return along_batch(lambda x, axis: np.split(x, count, axis)[index], batch)


def main(name, index, addresses, output):
    index, addresses = int(index), addresses.split(",")
    collective = Collective(addresses, index)
    replicas = collective.replicas(("CPU:0",))
    batches = [part_of(batch, index, len(addresses)) for batch in samples(name)]
    assert batches[0].weight.shape == (B // len(addresses),)
    np.savez(output, **trained_on(name, replicas, batches))


if __name__ == "__main__":
    main(*sys.argv[1:])
