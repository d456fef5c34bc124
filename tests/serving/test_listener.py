"""Listener before its services are there, or without them."""

import asyncio
import contextlib
import socket
import threading

import grpc
import pytest

from seed_rl.hosts.addresses import SERVICE as LEARNERS
from seed_rl.serving import listener
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connections import Connections
from seed_rl.serving.listener import NotServingError
from seed_rl.serving.server import InferenceServer
from seed_rl.serving.shared_memory import make_wake_up_set
from seed_rl.wire.protocol import SERVICE
from seed_rl.wire.shared_memory import is_supported
from tests.garbage import call_of
from tests.serving.harness import CATCH, DEADLINE_SECS, Player
from tests.waiting import wait_until

STARTING = "UNAVAILABLE", "The learner is starting; connect again."


def test_calls_of_services_that_are_not_expected_are_refused(tmp_path):
    other = listener.Listener(f"unix:{tmp_path}/s", 1000, (SERVICE,))
    with grpc.insecure_channel(f"unix:{tmp_path}/s") as channel:
        early = channel.stream_stream(f"/{SERVICE}/Connect")(iter([]), wait_for_ready=True)
        wait_until(lambda: other._has_changed._waiters, "the call to wait")
        with pytest.raises(grpc.RpcError) as caught:
            next(channel.stream_stream(f"/{LEARNERS}/Meet")(iter([]), timeout=DEADLINE_SECS))
        assert (caught.value.code().name, caught.value.details()) == ("UNIMPLEMENTED", "Method not found!")
        assert not early.done()  # It waits for its service.
        server = InferenceServer("", Connections(CATCH, 8, [Batcher(4, 0.01)], 4), listener=other)
        assert (early.code().name, early.details()) == STARTING
        server.stop()
        assert other.is_open
    other.stop()


@pytest.mark.skipif(not is_supported(), reason="needs Linux: only shared memory takes time to open")
def test_an_actor_that_comes_while_the_server_starts_is_not_refused(tmp_path, monkeypatch):
    """The server listens before it can answer; a refusal would end the actor for good."""
    address, arrived, early = f"unix:{tmp_path}/s", threading.Event(), []
    answer = listener.Listener._answer

    async def note(*arguments):
        arrived.set()
        await answer(*arguments)

    async def share_memory(*_):
        early.append(Player(address))
        assert await asyncio.to_thread(arrived.wait, DEADLINE_SECS)

    monkeypatch.setattr(listener.Listener, "_answer", note)
    monkeypatch.setattr(InferenceServer, "_share_memory", share_memory)
    server = InferenceServer(address, Connections(CATCH, 2, [Batcher(2, 1.0, make_wake_up_set())], 2))
    assert early[0].status() == STARTING
    late = Player(address)
    assert late.welcome().task == 0
    server.stop()
    for player in (*early, late):
        player.close()


@pytest.fixture(params=["unix", "tcp"])
def harness(request, open_harness, tmp_path):
    return open_harness(
        "messages", address={"unix": f"unix:{tmp_path}/s", "tcp": "127.0.0.1:0"}[request.param]
    )


def end_server(harness):
    """Ends the loop that accepts calls, as an error there would."""
    open_server = harness.server._listener._steady

    async def fail():
        for task in asyncio.all_tasks():
            if "_server_main_loop" in repr(task):
                task.cancel()

    harness.server._listener.run(fail())
    return open_server


def test_a_server_that_ends_listens_again_and_its_streams_play_on(harness):
    first = harness.join()
    assert first.ask(1, 2) == [1, 2]
    for number in range(3):
        ended = end_server(harness)
        wait_until(lambda ended=ended: harness.server._listener._steady is not ended, "another server")
        assert first.ask(3, 4, done=False) == [3, 4]
        assert harness.join(process_id=10 + number).ask(5, 6) == [5, 6]
    harness.server.check()


def test_a_server_that_cannot_listen_again_says_so(harness, monkeypatch):
    async def taken(_):
        raise OSError("taken")

    monkeypatch.setattr(listener, "_AGAIN_SECS", 0.1)
    monkeypatch.setattr(listener.Listener, "_start", taken)
    end_server(harness)

    def complains():
        with contextlib.suppress(NotServingError):
            return harness.server.check()
        return True

    wait_until(complains, "the error")
    with pytest.raises(NotServingError, match=r"cannot listen on .* again: taken\."):
        harness.server.check()


@pytest.mark.parametrize("path", [b"/\xff", b"", b"/", b"/seed_rl.Inference/\xc3", b"a" * 100])
def test_a_call_of_no_method_is_refused_and_others_are_not(harness, path):
    with contextlib.closing(raw_connection(harness.address)) as peer:
        peer.sendall(call_of(path))
        assert harness.join().ask(1, 2) == [1, 2]
        unknown = grpc.insecure_channel(harness.address).unary_unary("/seed_rl.Inference/Unknown")
        with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
            unknown(b"", timeout=DEADLINE_SECS)


def raw_connection(address):
    if address.startswith("unix:"):
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(address.removeprefix("unix:"))
        return peer
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))
