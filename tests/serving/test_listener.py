"""What listens before its services are there, or without them."""

import asyncio
import concurrent.futures
import contextlib
import socket
import threading

import grpc
import pytest

from benchmarks.garbage_inputs import call_of
from seed_rl.serving import listener
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.doorbell import make_bell
from seed_rl.serving.listener import NotServingError
from seed_rl.serving.server import InferenceServer
from seed_rl.wire.board import is_supported
from seed_rl.wire.client import LearnerGoneError, RefusedError
from tests.serving.harness import DEADLINE_SECS, Harness, ask, of_catch
from tests.waiting import wait_until
from tests.wire.blocking import BlockingConnection


def test_a_server_that_is_not_a_learner_is_refused(tmp_path):
    address = f"unix:{tmp_path}/socket"
    other = listener.Listener(address, 1000, ())
    with contextlib.closing(BlockingConnection(address)) as connection:
        with pytest.raises(RefusedError, match=r"is not a learner .*\(Method not found!\)"):
            connection.check(of_catch(), DEADLINE_SECS)
    other.stop()


@pytest.mark.skipif(not is_supported(), reason="needs Linux: only a board takes time to open")
def test_an_actor_that_comes_while_the_server_starts_is_not_refused(tmp_path, monkeypatch):
    """The server listens before it can answer; a refusal would end the actor for good."""
    address, arrived, early = f"unix:{tmp_path}/socket", threading.Event(), []
    find = listener._Services.service

    def service(services, call):
        arrived.set()
        return find(services, call)

    async def open_board(*_):
        early.append(pool.submit(connection.check, of_catch(), DEADLINE_SECS))
        assert await asyncio.to_thread(arrived.wait, DEADLINE_SECS)

    monkeypatch.setattr(listener._Services, "service", service)
    monkeypatch.setattr(InferenceServer, "_open_board", open_board)
    with contextlib.closing(BlockingConnection(address)) as connection:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            server = InferenceServer(address, of_catch(), 1, [Batcher(1, 1.0, make_bell())], 1)
            with pytest.raises(LearnerGoneError, match="UNAVAILABLE: The learner is starting"):
                early[0].result(DEADLINE_SECS)
        assert connection.check(of_catch(), DEADLINE_SECS).num_envs == 1
        server.stop()


@pytest.fixture(params=["unix", "tcp"])
def harness(tmp_path, request):
    with contextlib.ExitStack() as stack:
        found = Harness("127.0.0.1:0" if request.param == "tcp" else f"unix:{tmp_path}/socket", stack)
        if request.param == "tcp":
            found.address = f"127.0.0.1:{found.server.port}"
        stack.callback(found.close)
        yield found


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
    first = harness.join(run_id=1, first_env=0)
    assert ask(first, 1, 2) == [1, 2]
    for number in range(3):
        ended = end_server(harness)
        wait_until(lambda ended=ended: harness.server._listener._steady is not ended, "another server")
        assert ask(first, 3, 4, done=False) == [3, 4]
        late = harness.join(run_id=10 + number, first_env=2)
        assert ask(late, 5, 6) == [5, 6]
        late.close()
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
        stream = harness.join()
        assert ask(stream, 1, 2) == [1, 2]
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
