"""The door for browsers, as a client of it sees it."""

import contextlib
import dataclasses
import gc
import http.client
import itertools
import os
import resource
import socket
import ssl
import time

import psutil
import pytest
import trustme
from websockets.exceptions import ConnectionClosed, InvalidMessage, InvalidStatus

from seed_rl.serving import web
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connection import Limits
from seed_rl.serving.connections import Connections
from seed_rl.serving.server import InferenceServer
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.security import Security, WebConfig
from tests.actor.counting import DESCRIPTION, SPEC, Learner
from tests.serving.harness import open_gateway
from tests.serving.tabs import (
    DEADLINE_SECS,
    READY,
    NumbTab,
    Tab,
    end,
    is_closed,
    join,
    join_message,
    opened,
    statuses_of_many,
    step,
    step_message,
)
from tests.waiting import wait_until

TOKEN = "0123456789abcdef"


@pytest.fixture
def start(tmp_path):
    """Starts learners with a door; gives them and the door's URL."""
    with contextlib.ExitStack() as stack:

        def start(origins="", num_envs=4, **options):
            address = WebConfig("127.0.0.1:0", origins)
            learner = Learner(f"unix:{tmp_path}/s", num_envs, web=address, **options)
            stack.callback(learner.stop)
            scheme = "wss" if "security" in options and options["security"].certificate else "ws"
            return learner, f"{scheme}://127.0.0.1:{learner.server.web_port}"

        yield start


@pytest.fixture
def serve(start):
    """Starts learners with a door; gives its URL."""
    return lambda **options: start(**options)[1]


def test_a_browser_plays_as_an_actor_does(serve):
    with opened(serve()) as tab:
        assert tab.subprotocol == "seed_rl"
        assert join(tab).suite == "counting"
        tab.send(READY)
        for number in range(5):
            assert step(tab, number, done=number == 0) == number + 1


def test_a_token_is_needed_in_a_subprotocol_or_a_header(serve):
    url = serve(security=Security(token=TOKEN))
    for token in (None, "wrong", "\x7f" * 16):
        with opened(url, token) as tab:
            assert end(tab)["code"] == "UNAUTHENTICATED"
    with opened(url, TOKEN) as tab:
        assert join(tab).suite == "counting"
    with opened(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}) as tab:
        assert join(tab, 2).suite == "counting"


@pytest.mark.parametrize("origin", ["http://elsewhere.example", "null", "http://127.0.0.1:1"])
def test_pages_from_elsewhere_are_refused_unless_they_are_named(serve, origin):
    with pytest.raises(InvalidStatus) as refused, opened(serve(), origin=origin):
        pass
    assert refused.value.response.status_code == 403
    assert origin in refused.value.response.body.decode()


def test_pages_that_are_named_and_pages_of_the_address_itself_may_connect(serve):
    url = serve(origins="http://elsewhere.example, http://localhost:3000")
    for origin in ("http://localhost:3000", url.replace("ws", "http", 1)):
        with opened(url, origin=origin) as tab:
            assert join(tab).suite == "counting"


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
    with opened(serve()) as tab:
        for message in messages:
            tab.send(message)
        status = end(tab)
        assert status["code"] == code and words in status["message"]
        with pytest.raises(ConnectionClosed):
            tab.recv(DEADLINE_SECS)
        assert tab.close_code > 4000


def test_a_gateway_has_a_door_as_well(tmp_path):
    with contextlib.ExitStack() as stack:
        learner = Learner(f"unix:{tmp_path}/s")
        stack.callback(learner.stop)
        _, listener = open_gateway(f"unix:{tmp_path}/s", stack)
        port = listener.open_web("localhost:0")
        with opened(f"ws://localhost:{port}") as tab:
            assert join(tab).suite == "counting"
            tab.send(READY)
            assert step(tab, 0, done=True) == 1


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
        good.send(READY)
        assert step(good, 0, done=True) == 1


def test_training_that_ends_is_no_error(tmp_path):
    learner = Learner(f"unix:{tmp_path}/s", web=WebConfig("127.0.0.1:0"))
    with opened(f"ws://127.0.0.1:{learner.server.web_port}") as tab:
        join(tab)
        learner.stop()
        assert end(tab) == {"code": "OK", "message": ""}


def test_an_address_in_use_is_refused(tmp_path, serve):
    port = serve().rpartition(":")[2]
    batcher = Batcher(1, 0.0)
    connections = Connections(DESCRIPTION, 1, [batcher], 1)
    with pytest.raises(ValueError, match=f"--web_address=127.0.0.1:{port}"):
        InferenceServer(f"unix:{tmp_path}/t", connections, web=WebConfig(f"127.0.0.1:{port}"))


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


def secured(authority, asks=False):
    """A learner's certificate and key, which the authority has issued, and whether it asks for others'."""
    issued = authority.issue_cert("127.0.0.1")
    pems = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
    return Security(*pems, authority.cert_pem.bytes() if asks else None)


def trusting(authority, issuer=None):
    """A client's side of TLS, with a certificate if it has an issuer."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if issuer is not None:
        issuer.issue_cert("tab").configure_cert(context)
    return context


@pytest.mark.parametrize("asks", [False, True])
def test_tls_keeps_out_who_does_not_speak_it_or_is_not_trusted(serve, authority, asks):
    url, other = serve(security=secured(authority, asks)), trustme.CA()
    own = authority if asks else None
    strangers = {"without TLS": None, "with another authority": trusting(other, own)}
    if asks:
        strangers |= {"without a certificate": trusting(authority)}
        strangers |= {"with another's certificate": trusting(authority, other)}
    with Tab(url, ssl=trusting(authority, own)) as tab:
        for name, context in strangers.items():
            place = url if context else url.replace("wss", "ws")
            with pytest.raises((OSError, InvalidMessage, ConnectionClosed)), opened(place, ssl=context):
                pytest.fail(f"a client {name} got in")
            tab.play_on()


def wait_for_actors(learner, count):
    words = f"{count} connected"
    wait_until(lambda: learner.connections.describe_actors().startswith(words), words, DEADLINE_SECS)


# 256 KiB for each step.
LARGE = dataclasses.replace(SPEC.action, shape=(1 << 16,), minimum=None, maximum=None)
WITH_LARGE_ACTIONS = dataclasses.replace(DESCRIPTION, spec=SPEC._replace(action=LARGE))


def test_a_client_that_reads_no_actions_is_ended_before_they_pile_up(start):
    learner, url = start(description=WITH_LARGE_ACTIONS)
    with Tab(url) as tab, NumbTab(url) as numb:
        for message in (join_message(), READY):
            numb.send(message)
        wait_for_actors(learner, 2)
        for number in range(80):  # 20 MiB of actions; a socket has some of them.
            numb.send(step_message(number, done=number == 0))
            if not answers(learner, number):
                break
        else:
            pytest.fail("all actions have been kept")
        tab.play_on()
        status = numb.status()
        assert (status["code"], "read the actions" in status["message"]) == ("INVALID_ARGUMENT", True)


def answers(learner, number):
    """Whether a learner answers the step of this number of its second actor."""

    def is_over():
        return learner.connections.describe_actors().startswith("1 ")

    wait_until(lambda: len(learner.seen[1]) > number or is_over(), "the step", DEADLINE_SECS)
    taken = len(learner.records)
    wait_until(lambda: learner.answered >= taken or is_over(), "the answer", DEADLINE_SECS)
    return not is_over()


@pytest.mark.parametrize("ping_secs", [0.5, 3600.0])
def test_a_client_that_reads_no_pongs_is_not_read_or_waited_for(start, monkeypatch, ping_secs):
    monkeypatch.setattr(web, "_PING_SECS", ping_secs)
    monkeypatch.setattr(web, "_PONG_SECS", 2.0)
    learner, url = start()
    with NumbTab(url) as numb:
        with Tab(url) as tab:
            numb.send(join_message())
            wait_for_actors(learner, 2)
            numb.flood(most_bytes=64 << 20)
            if ping_secs < DEADLINE_SECS:  # It is taken for gone.
                wait_for_actors(learner, 1)
            tab.play_on()
        begin = time.monotonic()
        learner.stop()
        assert time.monotonic() - begin < 10.0


def test_a_client_that_answers_no_pings_loses_its_task(start, monkeypatch):
    """It is what the server sees of a machine that has gone: no end of the connection comes."""
    monkeypatch.setattr(web, "_PING_SECS", 0.2)
    monkeypatch.setattr(web, "_PONG_SECS", 3.0)
    learner, url = start(num_envs=2)
    with Tab(url) as tab, NumbTab(url) as numb:
        numb.send(join_message())
        wait_for_actors(learner, 2)
        wait_for_actors(learner, 1)
        with opened(url) as another:
            assert join(another, process_id=3).task == 1
        tab.play_on()


def dialed(url):
    """A TCP connection to the door."""
    return socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))


HALF = {
    "nothing": b"",
    "half a request": b"GET / HTTP/1.1\r\nHost: localhost\r\n",
    "no WebSocket": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "half of a handshake of TLS": b"\x16\x03\x01\x02\x00\x01",
}


@pytest.mark.parametrize("has_tls", [False, True])
def test_connections_that_open_no_websocket_are_closed(serve, authority, has_tls):
    url = serve(security=secured(authority) if has_tls else Security())
    with contextlib.ExitStack() as stack:
        tab = stack.enter_context(Tab(url, **({"ssl": trusting(authority)} if has_tls else {})))
        peers = [(kind, stack.enter_context(dialed(url))) for kind in HALF for _ in range(5)]
        for kind, peer in peers:
            peer.sendall(HALF[kind])
        slow = stack.enter_context(dialed(url))
        peers.append(("a request that comes in drops", slow))

        def are_closed():
            with contextlib.suppress(ConnectionError):
                slow.sendall(b"G")
            peers[:] = [(kind, peer) for kind, peer in peers if not is_closed(peer)]
            return not peers

        wait_until(are_closed, lambda: f"the end of {peers}", DEADLINE_SECS)
        tab.play_on()


def test_silent_connections_leave_the_learner_file_descriptors(serve, monkeypatch):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/dev/fd")) + 64  # Some are spare.
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (used + 100, hard))
    url = serve(limits=Limits(handshake_secs=3600.0))
    monkeypatch.undo()
    with Tab(url) as tab, contextlib.ExitStack() as stack:
        peers = [stack.enter_context(dialed(url)) for _ in range(100)]
        wait_until(lambda: sum(map(is_closed, peers)) >= 50, "the end of half of them", DEADLINE_SECS)
        tab.play_on()


def test_a_page_that_is_loaded_again_in_mid_episode_begins_anew(start):
    learner, url = start(num_envs=2)
    with Tab(url) as tab:
        for process_id, is_polite in itertools.product((11, 12, 13), (False, True)):
            num_steps = len(learner.seen[1]) + 1
            with NumbTab(url) as page:  # It goes without a word.
                for message in (join_message(process_id), READY, step_message(1, done=True)):
                    page.send(message)
                learner.wait_for(num_steps)
            wait_for_actors(learner, 1)
            with opened(url) as again:
                welcome = join(again, process_id=process_id + 100)
                assert (welcome.task, welcome.must_reset) == (1, True)
                again.send(READY)
                if is_polite:
                    assert step(again, 1, done=True) == 2
                else:
                    again.send(step_message(1))
                    assert "set done" in end(again)["message"]
            wait_for_actors(learner, 1)
            tab.play_on()


@pytest.fixture
def thousand():
    """As many WebSockets, of which this process may have both ends; fewer if the limit on files is low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 2500 if hard == resource.RLIM_INFINITY else min(2500, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    yield (most - 500) // 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_a_thousand_tabs_are_told_why_they_cannot_play_and_leave_nothing(serve, thousand):
    url = serve(num_envs=2, limits=Limits(join_secs=2.0))
    resident = []
    with Tab(url) as tab:
        for _ in range(2):
            for said, codes in (
                ([], {"DEADLINE_EXCEEDED"}),
                ([join_message(num_envs=2)], {"RESOURCE_EXHAUSTED"}),
            ):
                statuses = statuses_of_many(url, thousand, *said)
                assert {status["code"] for status in statuses} - {"UNAVAILABLE"} == codes
                assert all(status["message"].endswith(".") for status in statuses)
                tab.play_on()
            begin = time.monotonic()
            with opened(url) as another:
                assert join(another).task == 1
            assert time.monotonic() - begin < 10.0
            gc.collect()
            resident.append(psutil.Process().memory_info().rss >> 20)
    assert resident[1] - resident[0] < 16
