"""The protocol's file is all that an actor needs: one without this package learns."""

import subprocess
import sys
from pathlib import Path

import pytest

from seed_rl.wire.shared_memory import is_supported

pytestmark = pytest.mark.slow

CLIENT = Path(__file__).with_name("client.py")
FRAMES = 60_000


@pytest.mark.parametrize(
    "transport",
    [
        "grpc",
        pytest.param("shared_memory", marks=pytest.mark.skipif(not is_supported(), reason="needs Linux")),
    ],
)
def test_an_actor_of_the_protocol_file_alone_learns_catch(house, transport):
    # With the default, 1 of 25 runs is deterministic before it is right, and stays at a return below 0.7.
    costs = ("--learning_rate=0.003", "--entropy_cost=0.01")
    learner = house.learner(f"--total_environment_frames={FRAMES}", *costs)
    house.wait_until((house.path / "s").exists, "the learner's socket")
    command = [sys.executable, "-P", str(CLIENT), house.address, transport]
    actor = subprocess.Popen(command, cwd=house.path, stdout=subprocess.PIPE, text=True)
    try:
        if transport == "shared_memory":
            house.wait_until(lambda: house.shares_memory(actor), lambda: learner.output)
        assert learner.end() == 0, learner.output
        assert actor.communicate(timeout=60) == ("OK \n", None)
    finally:
        actor.kill()
        actor.wait()
    assert actor.returncode == 0
    assert house.metrics()[-1]["mean_return"] > 0.5
