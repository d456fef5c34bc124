"""Every row of SEED RL's Table 1 starts on as many devices as it has accelerators."""

import re

import pytest

from seed_rl.paper import tables

pytestmark = pytest.mark.slow

ROWS = {
    (row.accelerators, row.batch_size, row.environments, row.training_accelerators): row
    for row in tables.read("seed/table_1")
    if row.preset
}


def devices(text):
    """The numbers of the devices that a text lists, such as `CPU:0, CPU:1` or `CPU:0 to CPU:7`."""
    found = re.findall(r"CPU:(\d+)(?: to CPU:(\d+))?", text)
    return [number for first, last in found for number in range(int(first), int(last or first) + 1)]


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.preset)
def test_a_row_of_table_1_starts_with_a_split_that_divides_its_batch(house, row):
    agent = "r2d2" if row.suite == "atari" else "vtrace"
    learner = house.start(
        "learner",
        "--environment=catch",
        f"--agent={agent}",
        f"--num_envs={row.environments}",
        f"--batch_size={row.batch_size}",
        f"--num_logical_devices={row.accelerators}",
        f"--server_address={house.address}",
        f"--logdir={house.logdir}",
        "--total_environment_frames=1000",
    )
    learner.wait_for("Waiting for actors")
    line = next(line for line in learner.said if line.startswith("Training "))
    assert "not used" not in line
    training, inference = (devices(part) for part in [*line.split("; inference on "), ""][:2])
    assert len({*training, *inference}) == len(training) + len(inference) == row.accelerators
    assert row.batch_size % len(training) == 0
    if row.training_accelerators:
        assert len(training) == row.training_accelerators
    assert len(training) < row.accelerators or row.accelerators == 1
