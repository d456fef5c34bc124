"""Ends of an actor's connection, and addresses."""

import asyncio
import contextlib
import socket
import threading

import grpc
import pytest

from seed_rl.messages import one_line
from seed_rl.serving.listener import Listener
from seed_rl.wire import client
from seed_rl.wire.client import (
    Channel,
    LearnerGoneError,
    NoFreeTaskError,
    NotALearnerError,
    RefusedError,
    Stream,
    TrainingEndedError,
    resolved,
)
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import LEARNERS_MARK, SERVICE, channel_options
from seed_rl.wire.security import Security
from tests.threads import Thread
from tests.wire.joining import join


@pytest.fixture
def listen(tmp_path):
    """Starts a listener, by default at `s`, whose streams a function answers."""
    with contextlib.ExitStack() as stack:

        def start(connect, address=f"unix:{tmp_path}/s"):
            listener = Listener(address, -1, (SERVICE,))
            stack.callback(listener.stop)
            listener.add(SERVICE, connect)
            return listener

        yield start


@pytest.fixture
def serve(listen, tmp_path):
    """Starts a server that ends each stream with a status, by default as a learner; returns its address."""

    def start(code, sentence, *messages, metadata=(LEARNERS_MARK,)):
        async def connect(requests, context):
            context.set_trailing_metadata(metadata)
            await context.read()
            for message in messages:
                await context.write(message)
            if code != "OK":
                await context.abort(grpc.StatusCode[code], sentence)

        listen(connect)
        return f"unix:{tmp_path}/s"

    return start


@pytest.mark.parametrize(
    ("code", "of_a_learner", "of_another_server"),
    [
        ("OK", TrainingEndedError, LearnerGoneError),
        ("INVALID_ARGUMENT", RefusedError, NotALearnerError),
        ("FAILED_PRECONDITION", RefusedError, NotALearnerError),
        ("OUT_OF_RANGE", RefusedError, NotALearnerError),
        ("UNAUTHENTICATED", RefusedError, NotALearnerError),
        ("UNIMPLEMENTED", NotALearnerError, NotALearnerError),
        ("RESOURCE_EXHAUSTED", NoFreeTaskError, NoFreeTaskError),
        ("UNAVAILABLE", LearnerGoneError, LearnerGoneError),
        ("ABORTED", LearnerGoneError, LearnerGoneError),
        ("DEADLINE_EXCEEDED", LearnerGoneError, LearnerGoneError),
        ("PERMISSION_DENIED", LearnerGoneError, LearnerGoneError),
        ("UNKNOWN", LearnerGoneError, LearnerGoneError),
    ],
)
@pytest.mark.parametrize("is_learner", [True, False])
def test_a_status_tells_whether_to_come_back(serve, code, of_a_learner, of_another_server, is_learner):
    error, mark = (of_a_learner, LEARNERS_MARK) if is_learner else (of_another_server, ("server", "nginx"))
    with pytest.raises(error) as caught:
        join(serve(code, "Because.\n\x1b[2J" * 100, metadata=(mark,)))
    assert caught.type is error
    assert code == "OK" or "Because." in str(caught.value)
    assert str(caught.value) == one_line(str(caught.value), 1_000)


def test_a_learner_that_sends_garbage_is_gone(serve):
    with pytest.raises(LearnerGoneError, match="answer cannot be read"):
        join(serve("OK", "", b"\xff\xfe garbage"))


def test_messages_come_until_the_end(serve):
    welcome = pb.FromLearner(welcome=pb.Welcome(task=3)).SerializeToString()
    address = serve("UNAVAILABLE", "Stopped.", welcome, b"more")

    with contextlib.closing(Channel(address)) as channel:
        stream, found = channel.join(pb.Join(), 20.0)
        assert (found.task, stream.receive(20.0)) == (3, b"more")
        for _ in range(2):
            with pytest.raises(LearnerGoneError, match=r"UNAVAILABLE: Stopped\."):
                stream.receive(20.0)
        stream.send(b"late")  # Does not fail.
        stream.close()
        stream.close()


def test_messages_that_are_written_while_another_is_sent_become_one(listen, tmp_path):
    """Whatever is written before the learner is there, in order, and each byte once; not Join and Ready."""
    said = [pb.FromActor(join=pb.Join(task=1)), pb.FromActor(ready=pb.Ready(applied=[2]))]
    said = [message.SerializeToString() for message in said]
    got, sent = [], [f"{number} ".encode() for number in range(1_000)]

    async def connect(requests, context):
        while sum(map(len, got)) < len(b"".join(said + sent)):
            got.append(await context.read())
        await context.write(b"all")

    with contextlib.closing(Channel(f"unix:{tmp_path}/s")) as channel:
        stream = Stream(channel._channel, (), client._WAIT_FOR_READY)
        stream.say(join=pb.Join(task=1))
        stream.say(ready=pb.Ready(applied=[2]))
        for message in sent:
            stream.send(message)
        listen(connect)
        assert stream.receive(0.0) is None and stream.receive(20.0) == b"all"
    assert got[:2] == said and b"".join(got[2:]) == b"".join(sent) and len(got) < 12


def test_no_message_is_lost_between_threads(listen, tmp_path):
    """A regression: one that was written just as gRPC reported the last one as sent."""
    total, done = 20_000, threading.Event()

    async def connect(requests, context):
        received = 0
        while received < total:
            received += len(await context.read())
        done.set()

    listen(connect)
    with contextlib.closing(Channel(f"unix:{tmp_path}/s")) as channel:
        stream = Stream(channel._channel, (), client._WAIT_FOR_READY)

        def send():
            for _ in range(total // 2):
                stream.send(b"1")

        for thread in [Thread(send) for _ in range(2)]:
            assert thread.finished() and thread.error is None
        assert done.wait(20.0)


@pytest.mark.parametrize("variable", ["http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "all_proxy"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_no_channel_goes_through_a_proxy_for_the_web(listen, monkeypatch, variable, host):
    """One that is not there: a call through it would fail."""

    async def connect(requests, context):
        await context.write(await context.read())

    async def call(address):
        async with Security().channel(address, channel_options(-1)) as channel:
            stream = channel.stream_stream(f"/{SERVICE}/Connect")()
            await stream.write(b"over grpc.aio")
            return await stream.read()

    monkeypatch.setenv(variable, "http://127.0.0.1:1")
    address = f"{host}:{listen(connect, 'localhost:0').port}"
    with contextlib.closing(Channel(address)) as channel:
        stream = Stream(channel._channel, ())
        stream.send(b"over grpc")
        assert stream.receive(20.0) == b"over grpc"
    assert asyncio.run(call(address)) == b"over grpc.aio"


def test_nobody_and_something_else_at_the_address(tmp_path):
    with pytest.raises(LearnerGoneError, match="UNAVAILABLE"):
        join(f"unix:{tmp_path}/nobody", seconds=0.1)
    listener = Listener(f"unix:{tmp_path}/s", 1000, ())
    for _ in range(10):  # A regression: the refusal was lost if it came while the Join was being sent.
        with pytest.raises(RefusedError, match=r"is not a learner .*\(Method not found!\)"):
            join(f"unix:{tmp_path}/s")
    listener.stop()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{tmp_path}/silent")
        silent.listen()
        with pytest.raises(LearnerGoneError):
            join(f"unix:{tmp_path}/silent", seconds=0.1)


@pytest.mark.parametrize(
    ("named", "asked", "reached"),
    [
        (":8687", "learner.example:8686", "learner.example:8687"),
        (":8687", "[fe80::1]:8686", "[fe80::1]:8687"),
        (":8687", "dns:///learner:8686", "dns:///learner:8687"),
        (":8687", "ipv4:10.0.0.2:8688", "ipv4:10.0.0.2:8687"),
        ("10.0.0.3:8687", "learner.example:8686", "10.0.0.3:8687"),
        ("[fe80::1]:8687", "learner.example:8686", "[fe80::1]:8687"),
        ("unix:/tmp/s", "unix:/tmp/t", "unix:/tmp/s"),
        ("", "learner.example:8686", ""),
    ],
)
def test_a_port_is_one_of_the_host_that_was_asked(named, asked, reached):
    assert resolved(named, asked) == reached
