"""Redirects of actors: several learner hosts, with and without gateways."""

import itertools

import pytest

from seed_rl.hosts.addresses import LearnerHosts
from seed_rl.serving.connection import Refusal
from seed_rl.serving.gateway import gateway_addresses
from seed_rl.wire.client import resolved
from tests.serving.conversation import Batcher, Process, make_connections
from tests.serving.harness import NUM_ENVS

PROCESSES = itertools.count(1)


class Hosts:
    """Learner hosts and their gateways, all of which a process reaches by their addresses."""

    def __init__(self, addresses, num_gateways=0):
        self.addresses, self.at = addresses, {}
        for index, address in enumerate(addresses):
            gateways = gateway_addresses(address, num_gateways)
            hosts = LearnerHosts(addresses, index) if len(addresses) > 1 else None
            host = make_connections([Batcher()], hosts=hosts, gateways=lambda running=gateways: running)
            self.at |= {address: (host, False)} | dict.fromkeys(gateways, (host, True))

    def join(self, address, **said):
        """Goes where it is sent; returns the process and the addresses where it has been."""
        visited, process_id = [], next(PROCESSES)
        while address:
            visited.append(address)
            host, is_gateway = self.at[address]
            process = Process(
                host, is_near=is_gateway, process_id=process_id, redirects=len(visited) - 1, **said
            )
            address = resolved(process.welcome.address, address)
            assert len(visited) < 100
        return process, visited


def addresses_of(num_hosts):
    return tuple(f"host{index}:8000" for index in range(num_hosts))


@pytest.mark.parametrize("num_gateways", [0, 2])
@pytest.mark.parametrize("num_hosts", [1, 2, 4])
def test_whatever_is_free_is_found_from_any_host(num_hosts, num_gateways):
    for first, task in itertools.product(range(num_hosts), (-1, 0, NUM_ENVS - 1, 99)):
        hosts = Hosts(addresses_of(num_hosts), num_gateways)
        found = []
        for _ in range(NUM_ENVS):
            process, visited = hosts.join(hosts.addresses[first], num_envs=1, task=task)
            assert len(visited) <= 2 + 2 * num_hosts
            found.append(process.welcome.task)
        assert sorted(found) == list(range(NUM_ENVS))
        assert found[0] == task or not 0 <= task < NUM_ENVS
        with pytest.raises(Refusal) as caught:
            hosts.join(hosts.addresses[first], num_envs=1, task=task)
        assert caught.value.code.name == "RESOURCE_EXHAUSTED"


def test_actors_without_a_wish_go_to_the_hosts_in_turn():
    hosts = Hosts(addresses_of(2))
    found = [hosts.join("host1:8000", num_envs=1)[1][-1] for _ in range(4)]
    assert found == ["host1:8000", "host0:8000"] * 2


@pytest.mark.parametrize("gateway", ["0.0.0.0:8687", "[::]:8687"])
def test_a_gateway_on_all_interfaces_is_on_the_host_that_was_asked(gateway):
    welcome = Process(make_connections([Batcher()], gateways=lambda: [gateway])).welcome
    assert (welcome.address, welcome.suite) == (":8687", "")


@pytest.mark.parametrize("num_hosts", [1, 2])
def test_whoever_comes_back_from_a_gateway_is_served_by_the_learner_itself(num_hosts):
    hosts = Hosts(addresses_of(num_hosts), num_gateways=2)
    host, _ = hosts.at["host0:8000"]
    sent = Process(host, process_id=1, num_envs=1, task=0)
    assert sent.welcome.address == ":8001"
    returned = Process(host, process_id=1, num_envs=1, task=0)
    assert (returned.welcome.address, returned.welcome.task) == ("", 0)
    again = Process(host, process_id=1, num_envs=1, task=0)  # The gateways may be back in the meantime.
    assert again.welcome.address == ":8002"


def test_whoever_has_joined_at_a_gateway_goes_to_the_next_one():
    (host, _) = Hosts(addresses_of(1), num_gateways=2).at["host0:8000"]
    for port in (8001, 8002, 8001):
        assert Process(host, process_id=1).welcome.address == f":{port}"
        assert Process(host, process_id=1, is_near=True).welcome.task == 0


def test_only_gateways_that_run_get_actors_and_without_any_the_learner_serves_them():
    running = []
    host = make_connections([Batcher()], gateways=lambda: running)
    found = []
    for now in ([], ["h:1", "h:2"], ["h:2"], [], ["h:1"]):
        running[:] = now
        found.append(Process(host, process_id=next(PROCESSES), num_envs=1).welcome.address)
    assert found == ["", ":1", ":2", "", ":1"]


def test_an_actor_that_fits_no_host_is_refused():
    with pytest.raises(Refusal, match="An actor of 3 environments does not fit the learner's 2") as caught:
        Hosts(addresses_of(4)).join("host0:8000", num_envs=3)
    assert caught.value.code.name == "OUT_OF_RANGE"
