"""The door for browsers, as a client of it sees it."""

import base64
import contextlib
import http.client
import json

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connections import Connections
from seed_rl.serving.server import InferenceServer
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import PROTOCOL_VERSION
from seed_rl.wire.security import Security, WebConfig
from tests.actor.counting import DESCRIPTION, Learner
from tests.serving.harness import open_gateway

TOKEN = "0123456789abcdef"
DEADLINE_SECS = 30.0


@pytest.fixture
def serve(tmp_path):
    """Starts learners with a door; gives their URLs."""
    with contextlib.ExitStack() as stack:

        def start(security=Security(), origins="", num_envs=4):  # noqa: B008
            web = WebConfig("127.0.0.1:0", origins)
            learner = Learner(f"unix:{tmp_path}/s", num_envs, security=security, web=web)
            stack.callback(learner.stop)
            return f"ws://127.0.0.1:{learner.server.web_port}"

        yield start


@contextlib.contextmanager
def opened(url, token=None, **options):
    offered = ["seed_rl"]
    if token is not None:
        offered.append("token." + base64.urlsafe_b64encode(token.encode()).decode().rstrip("="))
    with connect(url, subprotocols=offered, open_timeout=DEADLINE_SECS, proxy=None, **options) as socket:
        yield socket


def say(socket, **said):
    socket.send(pb.FromActor(**said).SerializeToString())


def heard(socket):
    return pb.FromLearner.FromString(socket.recv(DEADLINE_SECS))


def join(socket, num_envs=1):
    say(
        socket,
        join=pb.Join(
            protocol_version=PROTOCOL_VERSION, process_id=7, num_envs=num_envs, num_groups=1, task=-1
        ),
    )
    return heard(socket).welcome


def end(socket):
    """The status that a socket ends with."""
    with contextlib.suppress(ConnectionClosed):
        while not isinstance(message := socket.recv(DEADLINE_SECS), str):
            pass
        return json.loads(message)
    return {"code": str(socket.close_code)}


def record(step, reward=0.0, done=False):
    return np.float32(reward).tobytes() + bytes([done, False]) + np.int32(step).tobytes()


def test_a_browser_plays_as_an_actor_does(serve):
    with opened(serve()) as socket:
        assert socket.subprotocol == "seed_rl"
        assert join(socket).suite == "counting"
        say(socket, ready=pb.Ready(applied=[0]))
        for step in range(5):
            say(socket, steps=[pb.Step(group=0, records=record(step, done=step == 0))])
            (actions,) = heard(socket).actions
            assert np.frombuffer(actions.actions, "<i4").tolist() == [step + 1]


def test_a_token_is_needed_in_a_subprotocol_or_a_header(serve):
    url = serve(Security(token=TOKEN))
    for token in (None, "wrong", "\x7f" * 16):
        with opened(url, token) as socket:
            assert end(socket)["code"] == "UNAUTHENTICATED"
    with opened(url, TOKEN) as socket:
        assert join(socket).suite == "counting"
    with opened(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as socket:
        assert join(socket, 2).suite == "counting"


@pytest.mark.parametrize("origin", ["http://elsewhere.example", "null", "http://127.0.0.1:1"])
def test_pages_from_elsewhere_are_refused_unless_they_are_named(serve, origin):
    with pytest.raises(InvalidStatus) as refused, opened(serve(), origin=origin):
        pass
    assert refused.value.response.status_code == 403
    assert origin in refused.value.response.body.decode()


def test_pages_that_are_named_and_pages_of_the_address_itself_may_connect(serve):
    url = serve(origins="http://elsewhere.example, http://localhost:3000")
    for origin in ("http://localhost:3000", url.replace("ws", "http", 1)):
        with opened(url, origin=origin) as socket:
            assert join(socket).suite == "counting"


def test_a_name_that_leads_to_this_machine_is_no_way_around_origins(serve):
    port = serve().rpartition(":")[2]
    caller = http.client.HTTPConnection("127.0.0.1", int(port), timeout=DEADLINE_SECS)
    caller.request(
        "GET", "/", headers={"Host": f"evil.example:{port}", "Origin": f"http://evil.example:{port}"}
    )
    assert caller.getresponse().status == 403


@pytest.mark.parametrize(
    "messages, code, words",
    [
        ([b"\xff\xff"], "INVALID_ARGUMENT", "not a FromActor"),
        (["text"], "INVALID_ARGUMENT", "binary"),
        ([b""], "INVALID_ARGUMENT", "must have `join`"),
        (
            [pb.FromActor(join=pb.Join(protocol_version=1)).SerializeToString()],
            "FAILED_PRECONDITION",
            "version",
        ),
    ],
)
def test_what_is_wrong_ends_a_socket_with_a_status_and_a_sentence(serve, messages, code, words):
    with opened(serve()) as socket:
        for message in messages:
            socket.send(message)
        status = end(socket)
        assert status["code"] == code and words in status["message"]
        with pytest.raises(ConnectionClosed):
            socket.recv(DEADLINE_SECS)
        assert socket.close_code > 4000


def test_a_gateway_has_a_door_as_well(tmp_path):
    with contextlib.ExitStack() as stack:
        learner = Learner(f"unix:{tmp_path}/s")
        stack.callback(learner.stop)
        _, listener = open_gateway(f"unix:{tmp_path}/s", stack)
        port = listener.open_web("localhost:0")
        with opened(f"ws://localhost:{port}") as socket:
            assert join(socket).suite == "counting"
            say(socket, ready=pb.Ready(applied=[0]))
            say(socket, steps=[pb.Step(group=0, records=record(0, done=True))])
            assert heard(socket).actions


@pytest.mark.parametrize("host", ["evil.example", "[", "localhost:x", "[::1]x", ""])
def test_requests_for_other_hosts_than_this_machine_are_refused(serve, host):
    port = serve().rpartition(":")[2]
    caller = http.client.HTTPConnection("127.0.0.1", int(port), timeout=DEADLINE_SECS)
    caller.request("GET", "/", headers={"Host": host, "Upgrade": "websocket"})
    assert caller.getresponse().status == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "localhost:80"])
def test_what_opens_no_socket_is_told_to(serve, host):
    port = serve().rpartition(":")[2]
    caller = http.client.HTTPConnection("127.0.0.1", int(port), timeout=DEADLINE_SECS)
    caller.request("GET", "/", headers={"Host": host})
    assert caller.getresponse().status == 426


def test_a_message_that_is_too_large_ends_its_socket_only(serve):
    url = serve()
    with opened(url) as good, opened(url) as bad:
        assert join(good).suite == "counting"
        with contextlib.suppress(ConnectionClosed):
            bad.send(bytes(100 << 20))
        assert end(bad)["code"] == "1009"
        say(good, ready=pb.Ready(applied=[0]))
        say(good, steps=[pb.Step(group=0, records=record(0, done=True))])
        assert heard(good).actions


def test_training_that_ends_is_no_error(tmp_path):
    learner = Learner(f"unix:{tmp_path}/s", web=WebConfig("127.0.0.1:0"))
    with opened(f"ws://127.0.0.1:{learner.server.web_port}") as socket:
        join(socket)
        learner.stop()
        assert end(socket) == {"code": "OK", "message": ""}


def test_an_address_in_use_is_refused(tmp_path, serve):
    port = serve().rpartition(":")[2]
    batcher = Batcher(1, 0.0)
    connections = Connections(DESCRIPTION, 1, [batcher], 1)
    with pytest.raises(ValueError, match=f"--web_address=127.0.0.1:{port}"):
        InferenceServer(f"unix:{tmp_path}/t", connections, web=WebConfig(f"127.0.0.1:{port}"))
