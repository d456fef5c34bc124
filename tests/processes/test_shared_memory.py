"""Shared memory with real processes: who uses it, and what is left of it when they have ended."""

import signal

import pytest

from seed_rl.wire.shared_memory import is_supported

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_supported(), reason="needs Linux"),
]

OF_LIVING_LEARNER = {"s", "s.lock", "s.memory", "s.memory.lock"}


def sockets(house):
    """The names of the files in the house that belong to its address."""
    return {path.name for path in house.path.iterdir() if path.name.startswith("s")}


def test_nothing_is_left_of_it(house):
    """Neither of a learner that was stopped, nor, at the next start, of one that was killed."""
    learner, actor = house.learner("--num_envs=4"), house.actor()
    house.wait_for_progress(learner)
    assert house.shares_memory(learner) and house.shares_memory(actor)
    assert not house.leaves_memory(learner) and not house.leaves_memory(actor)
    assert sockets(house) == OF_LIVING_LEARNER
    learner.signal(signal.SIGKILL)
    learner.end()
    assert sockets(house) == OF_LIVING_LEARNER
    assert actor.running
    house.wait_until(lambda: not house.shares_memory(actor) or "Not connected" in actor.output, "the actor")
    learner = house.learner("--num_envs=4")
    house.wait_for_progress(learner)
    assert house.shares_memory(learner) and house.shares_memory(actor)
    assert sockets(house) == OF_LIVING_LEARNER
    actor.signal(signal.SIGKILL)
    actor.end()
    house.wait_until(lambda: not house.shares_memory(learner), "the learner to free the actor's memory")
    learner.signal(signal.SIGTERM)
    assert learner.end() == 143
    assert sockets(house) == set()


def test_an_actor_that_uses_it_ends_at_a_signal(house):
    """Whether its learner trains or is frozen."""

    def check_end(actor, number):
        actor.signal(number)
        assert actor.end() == 128 + number
        assert "did not stop within" not in actor.output and "Traceback" not in actor.output

    numbers, learner = (signal.SIGINT, signal.SIGTERM), house.learner("--num_envs=8")
    for number in numbers:
        actor = house.actor("--transport=shared_memory")
        house.wait_for_progress(learner)
        check_end(actor, number)
    actors = [house.actor("--transport=shared_memory") for _ in range(2)]
    house.wait_until(lambda: all(map(house.shares_memory, actors)), "two actors that share memory")
    house.wait_for_progress(learner)
    learner.signal(signal.SIGSTOP)
    for number, actor in zip(numbers, actors, strict=True):
        check_end(actor, number)


def test_two_inference_devices_and_two_threads_each(house):
    """Two processes, each for one device, and then a single one for both."""
    devices = ("--num_logical_devices=4", "--inference_devices=0,1", "--num_inference_threads=2")
    learner = house.learner(*devices, "--num_envs=8")
    actors = [house.actor("--num_env_groups=2") for _ in range(2)]
    house.wait_until(lambda: all(map(house.shares_memory, actors)), "two actors that share memory")
    house.wait_for_progress(learner)
    for actor in actors:
        actor.signal(signal.SIGKILL)
        actor.end()
    across = house.actor("--env_batch_size=8", "--num_env_groups=4", "--transport=shared_memory")
    house.wait_for_progress(learner)
    assert house.shares_memory(across)
    learner.signal(signal.SIGTERM)
    assert learner.end() == 143
