"""Learners whose address, file descriptors or environments others want, with real processes."""

import signal
import socket

import pytest

pytestmark = pytest.mark.slow

# The lower limit is not enough for a learner, and the higher one only for a hundred actors.
WITH_FEW_DESCRIPTORS = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))
from seed_rl import learner_main
from seed_rl.flags.errors import run_main
run_main(learner_main.main)
"""


def learner_args(house, *args):
    address, logdir = f"--server_address={house.address}", f"--logdir={house.logdir}"
    return [*house.small, address, logdir, "--num_envs=4", *args]


def test_a_second_learner_at_a_unix_socket_is_refused(house):
    first = house.learner("--num_envs=8")
    actors = [house.actor()]
    house.wait_for_metrics(lambda line: line["updates"] > 0, first)
    second = house.learner(logdir=house.path / "other")
    assert second.end() == 2
    assert second.last_line == (
        f"seed_rl: error: Cannot listen on --server_address={house.address}: another learner listens there; "
        "stop that one, or give this one another --server_address."
    )
    assert "Traceback" not in second.output
    actors.append(house.actor())  # Finds the first learner.
    count = len(house.metrics())
    now = house.wait_for_metrics(lambda line: True, first, after=count)
    house.wait_for_metrics(lambda line: line["updates"] > now["updates"], first, after=count + 1)
    assert all(actor.running for actor in actors)
    first.signal(signal.SIGTERM)
    assert first.end() == 143
    assert not (house.path / "s").exists()


def test_the_successor_of_an_actor_that_fell_silent_gets_its_task(house):
    """A machine that dies without a word closes no connection; nor does a process that is stopped."""
    learner = house.learner("--num_envs=4")
    silent = house.actor()
    house.wait_for_metrics(lambda line: line["updates"] > 0, learner)
    silent.signal(signal.SIGSTOP)
    successor = house.actor()
    house.wait_for_metrics(lambda line: line["actor_restarts"] == 1, learner)
    count = len(house.metrics())
    now = house.wait_for_metrics(lambda line: True, learner, after=count)
    house.wait_for_metrics(lambda line: line["updates"] > now["updates"], learner, after=count + 1)
    assert successor.running


@pytest.fixture
def silent_peers():
    """Opens connections that say nothing; closed at the end."""
    peers = []

    def connect(address, number):
        for _ in range(number):
            peers.append(socket.socket(socket.AF_UNIX))
            peers[-1].connect(address.removeprefix("unix:"))

    yield connect
    for peer in peers:
        peer.close()


def test_silent_peers_keep_no_actor_out_and_end_no_learner(house, silent_peers):
    args = learner_args(house, "--total_environment_frames=20000", "--save_checkpoint_secs=0.5")
    learner = house.start("learner_main", *args, code=WITH_FEW_DESCRIPTORS)
    house.wait_until((house.path / "s").exists, "the learner's socket")
    silent_peers(house.address, 300)
    # The peers are gone after some seconds. gRPC by itself would leave them for two minutes.
    actor = house.actor("--connect_timeout_secs=60")
    assert actor.end() == 0, actor.output
    assert learner.end() == 0, learner.output
    assert house.metrics()[-1]["env_frames"] >= 20000
