"""What listens before its services are there, or without them."""

import asyncio
import concurrent.futures
import contextlib
import threading

import pytest

from seed_rl.serving import listener
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.doorbell import make_bell
from seed_rl.serving.server import InferenceServer
from seed_rl.wire.board import is_supported
from seed_rl.wire.client import LearnerGoneError, RefusedError
from tests.serving.harness import DEADLINE_SECS, of_catch
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
