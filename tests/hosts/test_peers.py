"""Learner hosts meet, agree, and notice that one is lost: real gRPC in one process, no TensorFlow."""

import concurrent.futures
import contextlib
import json

import grpc
import pytest

from seed_rl.hosts.addresses import SERVICE, LearnerHosts
from seed_rl.hosts.peers import HostLostError, HostsDisagreeError, Peers
from seed_rl.serving.listener import Listener
from seed_rl.wire.security import Security
from tests.waiting import wait_until

IDENTITY = {"agent": "vtrace", "batch_size": 32}


class Group:
    """The hosts of one test, on unix sockets in a temporary directory."""

    def __init__(self, path, count=3, timeout_secs=20.0, token=None):
        self.addresses = tuple(f"unix:{path}/{index}" for index in range(count))
        self.timeout_secs, self.security = timeout_secs, Security(token=token)
        self.pool = concurrent.futures.ThreadPoolExecutor(2 * count)
        self._stack = contextlib.ExitStack()
        self.problems = {}
        self._leaving = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        concurrent.futures.wait([self.pool.submit(p.leave, "the test is over") for p in self._leaving])
        self._stack.close()
        self.pool.shutdown()

    def host(self, index, listens=True, **identity):
        """One host; a second one with the same index cannot listen."""
        hosts = LearnerHosts(self.addresses, index)
        address = hosts.address if listens else f"{hosts.address}_again"
        listener = Listener(address, 1_000_000, (SERVICE,), self.security)
        self._stack.callback(listener.stop)
        peers = Peers(hosts, listener, self.timeout_secs, {**IDENTITY, **identity}, self.security)
        self._leaving.append(peers)
        return peers

    def meet(self, *peers):
        """Results and errors of `meet`, for each of these hosts."""
        futures = [self.pool.submit(p.meet, lambda: False) for p in peers]
        return [f.exception() or f.result() for f in futures]

    def met(self):
        """All hosts, which have met and are watched."""
        found = [self.host(index) for index in range(len(self.addresses))]
        for answer in self.meet(*found):
            assert isinstance(answer, list), answer
        for index, peers in enumerate(found):
            peers.watch(lambda sentence, index=index: self.problems.setdefault(index, sentence))
        return found

    def leave(self, *peers):
        """All of these leave at the same time."""
        concurrent.futures.wait([self.pool.submit(p.leave) for p in peers])


@pytest.mark.parametrize("token", [None, "0123456789abcdef"])
def test_all_learn_the_same_addresses_and_leave_in_peace(tmp_path, token):
    with Group(tmp_path, token=token) as group:
        peers = [group.host(index) for index in (0, 1, 2)]
        answers = group.meet(*reversed(peers))
        assert answers[0] == answers[1] == answers[2]
        assert len({address.rpartition(":")[2] for address in answers[0]}) == 3
        assert all(address.startswith("127.0.0.1:") for address in answers[0])
        group.leave(*peers)
        assert [p.problem for p in peers] == ["", "", ""]


def test_other_settings_are_refused_on_both_sides(tmp_path):
    with Group(tmp_path, 2) as group:
        answers = group.meet(group.host(0), group.host(1, batch_size=16))
        expected = (
            f"learner host 1 ({group.addresses[1]}) differs from learner host 0 ({group.addresses[0]}) "
            "(batch_size: 32 here, 16 there); start all learner hosts with the same flags and versions."
        )
        assert [type(answer) for answer in answers] == [HostsDisagreeError] * 2
        assert [str(answer) for answer in answers] == [expected] * 2


def test_a_second_process_with_the_same_index_is_refused(tmp_path):
    with Group(tmp_path, 2) as group:
        first, other = group.met()
        (answer,) = group.meet(group.host(1, listens=False))
        assert isinstance(answer, HostsDisagreeError)
        assert str(answer).startswith(f"Another process is learner host 1 ({group.addresses[1]}) already;")
        first.check()
        other.check()


@pytest.mark.parametrize("comes", [0, 1])
def test_a_host_that_never_comes_is_named(tmp_path, comes):
    with Group(tmp_path, 2, timeout_secs=1.0) as group:
        (answer,) = group.meet(group.host(comes))
        assert isinstance(answer, HostsDisagreeError)
        missing = f"learner host {1 - comes} ({group.addresses[1 - comes]}) did not come within 1 s;"
        assert str(answer).startswith(missing)


def test_a_port_that_cannot_be_reached_is_said_by_all(tmp_path):
    with Group(tmp_path, 2) as group:
        peers = [group.host(0), group.host(1)]
        peers[0]._held.close()  # As if a firewall were between them.
        for answer in group.meet(*peers):
            assert isinstance(answer, HostsDisagreeError)
            assert "cannot reach learner host 0" in str(answer)


def test_a_host_that_is_asked_to_stop_waits_no_longer(tmp_path):
    with Group(tmp_path, 2, timeout_secs=100.0) as group:
        assert [group.host(index).meet(lambda: True) for index in (0, 1)] == [[], []]


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_reaches_everyone(tmp_path, failing):
    with Group(tmp_path, 3) as group:
        peers = group.met()
        leaving = group.pool.submit(peers[failing].leave, "The disk is full.")
        failed = f"learner host {failing} ({group.addresses[failing]}) failed: The disk is full."
        others = [index for index in range(3) if index != failing]
        wait_until(lambda: group.problems == dict.fromkeys(others, failed), lambda: str(group.problems))
        for index in others:
            with pytest.raises(HostLostError, match=f"learner host {failing}"):
                peers[index].check()
            peers[index].leave(failed)
        leaving.result()


@pytest.mark.parametrize(
    ("joining", "said"),
    [
        ((0, 2), "learner host 1 (unix:{}/1) did not join an update within 2 s;"),
        ((0, 1, 2), "An update of the 3 learner hosts did not end within 2 s;"),
    ],
)
def test_an_update_that_a_host_does_not_join_or_that_does_not_end_ends_all(tmp_path, joining, said):
    with Group(tmp_path, 3, timeout_secs=2.0) as group, contextlib.ExitStack() as stack:
        peers = group.met()
        for index in joining:
            stack.enter_context(peers[index].joining())
        wait_until(lambda: all(p.problem for p in peers), "the problem")
        assert len({p.problem for p in peers}) == 1
        assert peers[0].problem.startswith(said.format(tmp_path))


def test_a_report_reaches_the_first_host_and_a_bad_one_ends_all(tmp_path):
    with Group(tmp_path, 2) as group:
        first, other = group.met()
        heard = []
        first.on_report = lambda index, report: heard.append((index, report))
        other.take_report = lambda: {"figures": {"queue_depth": 3.0}}
        wait_until(lambda: heard, "a report")
        assert heard[0] == (1, {"figures": {"queue_depth": 3.0}})

        def add(index, report):
            raise OverflowError("inf")

        first.on_report = add
        wait_until(lambda: len(group.problems) == 2, "the problem")
        assert "sent something else than expected: OverflowError('inf')" in first.problem


def first_message(**changes):
    return json.dumps({"index": 1, "identity": IDENTITY, "address": "127.0.0.1:1"} | changes).encode()


NO_MESSAGES = [
    *(b"\xff", b"[]", b"1", b"{}", b'{"a":' * 100_000),
    *(first_message(index=index) for index in (-1, 1e999, float("nan"), 2**63, "1", None, [1])),
    *(first_message(joined=value) for value in (-1, 10**16, float("inf"), {})),
    first_message(identity=1),
]


@pytest.mark.parametrize("data", NO_MESSAGES, ids=range(len(NO_MESSAGES)))
def test_what_is_no_message_ends_its_stream_and_nothing_else(tmp_path, data):
    with Group(tmp_path, 2) as group:
        first = group.host(0)
        with grpc.insecure_channel(group.addresses[0]) as channel:
            answers = channel.stream_stream(f"/{SERVICE}/Meet")(iter([data]), timeout=30)
            assert list(answers) == []
        answers = group.meet(first, group.host(1))
        assert [type(answer) for answer in answers] == [list, list]
