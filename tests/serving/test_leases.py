"""Tasks over several learner hosts: the one with most room answers, whichever is asked."""

import contextlib

import grpc
import pytest

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.listener import Listener
from seed_rl.serving.server import InferenceServer
from seed_rl.types import ArraySpec, EnvironmentSpec
from seed_rl.wire.client import LearnerGoneError, NoFreeTaskError, RefusedError, make_hello
from seed_rl.wire.gateways import gateway_addresses, resolved
from seed_rl.wire.hosts import SERVICE as LEARNERS
from seed_rl.wire.hosts import LearnerHosts
from seed_rl.wire.protocol import SERVICE, EnvironmentDescription
from tests.waiting import wait_until
from tests.wire.blocking import BlockingConnection

DEADLINE_SECS = 20.0
NUM_ENVS = 8
DESCRIPTION = EnvironmentDescription(
    "catch", {}, EnvironmentSpec(ArraySpec((2,), "float32"), ArraySpec((), "int32", (0,), (9,)))
)


@pytest.fixture
def hosts(tmp_path):
    """Two hosts with four environments each; yields a function that starts one and one that connects."""
    with contextlib.ExitStack() as stack:
        addresses = tuple(f"unix:{tmp_path}/{index}" for index in range(2))

        def start(index, gateways=()):
            server = InferenceServer(
                addresses[index],
                DESCRIPTION,
                NUM_ENVS,
                [Batcher(4, 0.01)],
                4,
                hosts=LearnerHosts(addresses, index),
                gateways=gateways,
            )
            stack.callback(server.stop)

        def connect(index):
            connection = BlockingConnection(addresses[index])
            stack.callback(connection.close)
            return connection

        yield addresses, start, connect


def lease(connection, actor_id, num_envs=2, task=-1):
    found = connection.lease_task(actor_id, num_envs, task, DEADLINE_SECS)
    return found.task, found.address


def test_the_host_with_most_room_answers(hosts):
    addresses, start, connect = hosts
    for index in range(2):
        start(index)
    first, second = connect(0), connect(1)
    assert lease(first, 1) == (0, "")
    assert lease(first, 2) == (2, addresses[1])
    assert lease(second, 3) == (1, addresses[0])
    assert lease(second, 4) == (3, "")
    with pytest.raises(NoFreeTaskError, match="All 8 environments of the 2 learner hosts are taken by other"):
        lease(first, 5)
    assert lease(second, 1, task=0) == (0, addresses[0])  # It gets back the task that it had.


def test_gateways_of_two_hosts_get_the_actors_in_turn(hosts):
    """An actor that asks one host is told the full address of the other one's gateways."""
    addresses, start, connect = hosts
    for index in range(2):
        start(index, gateway_addresses(addresses[index], 2))
    first = connect(0)
    leases = dict(lease(first, actor_id) for actor_id in range(4))
    assert leases == {
        0: f"{addresses[0]}.gateway0",
        1: f"{addresses[0]}.gateway1",
        2: f"{addresses[1]}.gateway0",
        3: f"{addresses[1]}.gateway1",
    }


def test_gateways_of_hosts_on_tcp_can_be_reached_from_elsewhere(hosts):
    """A host names only a port to the actor that asked it, and another host's address as hosts know it."""
    _, start, connect = hosts
    start(0, ("0.0.0.0:8001", "0.0.0.0:8002"))
    start(1, ("0.0.0.0:9001", "0.0.0.0:9002"))
    leases = dict(lease(connect(0), actor_id) for actor_id in range(4))
    assert (leases[0], leases[1]) == (":8001", ":8002")
    assert resolved(leases[0], "learner.example:8000") == "learner.example:8001"
    # The hosts of this test have paths; what counts is that the other host's address is put in.
    other = resolved(":9001", hosts[0][1]), resolved(":9002", hosts[0][1])
    assert (leases[2], leases[3]) == other


def test_an_actor_that_is_too_large_is_refused(hosts):
    _, start, connect = hosts
    for index in range(2):
        start(index)
    with pytest.raises(RefusedError, match="An actor of 5 environments does not fit the learner's 4; lower"):
        lease(connect(1), 1, num_envs=5)


def test_nobody_gets_a_task_before_all_hosts_are_there(hosts):
    _, start, connect = hosts
    start(0)
    with pytest.raises(LearnerGoneError, match=r"learner host 1 .* does not answer yet"):
        lease(connect(0), 1)


def test_a_fixed_task_of_another_host_is_refused(hosts):
    _, start, connect = hosts
    start(0)
    hello = make_hello(DESCRIPTION, run_id=1, task=3, first_env=6, num_envs=2)
    stream = connect(0).open(DESCRIPTION, hello)
    with pytest.raises(
        RefusedError,
        match="Task 3 belongs to another learner host: its environments 6 to 7 are not among this one's 0",
    ):
        stream.receive()


def test_a_service_that_comes_later_is_waited_for(tmp_path):
    """Callers wait until a service is added, and then have to call again."""
    listener = Listener(f"unix:{tmp_path}/s", 1_000_000, (SERVICE,))
    try:
        with grpc.insecure_channel(f"unix:{tmp_path}/s") as channel:
            early = channel.unary_unary(f"/{SERVICE}/Describe").future(b"", wait_for_ready=True)
            wait_until(lambda: listener._services._has_changed._waiters, "the call to wait")
            unknown = channel.unary_unary(f"/{LEARNERS}/Taken")
            with pytest.raises(grpc.RpcError) as caught:
                unknown(b"", wait_for_ready=True, timeout=DEADLINE_SECS)
            assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
            assert not early.done()
            server = InferenceServer("", DESCRIPTION, NUM_ENVS, [Batcher(4, 0.01)], 4, listener=listener)
            assert early.code() == grpc.StatusCode.UNAVAILABLE
            assert channel.unary_unary(f"/{SERVICE}/Describe")(b"", timeout=DEADLINE_SECS)
            server.stop()
            assert listener.is_open
    finally:
        listener.stop()
