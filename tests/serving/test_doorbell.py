"""The doorbell alone: sockets and threads, no board."""

import socket
import threading

import pytest

from seed_rl.serving.doorbell import make_bell
from tests.descriptors import descriptors_after

DEADLINE_SECS = 20.0

pytestmark = pytest.mark.skipif(make_bell() is None, reason="needs Linux: no doorbell elsewhere")


class Visitor:
    """A connection that notes what it hears."""

    def __init__(self, bell):
        self.inside, self.outside = socket.socketpair()
        self.heard = []
        self._bell = bell
        bell.watch(self)

    def fileno(self):
        return self.inside.fileno()

    def answer_door(self):
        data = self.inside.recv(100)
        self.heard.append(data)
        if not data:
            self.leave()

    def leave(self):
        self._bell.forget(self)
        self.inside.close()
        self.outside.close()


@pytest.fixture
def bell():
    return make_bell()


@pytest.fixture
def visitors(bell):
    found = [Visitor(bell) for _ in range(3)]
    yield found
    for visitor in found:
        visitor.leave()


def test_all_who_ring_are_answered_and_no_others(bell, visitors):
    visitors[0].outside.send(b"a")
    visitors[2].outside.send(b"c")
    bell.wait(DEADLINE_SECS)
    assert [visitor.heard for visitor in visitors] == [[b"a"], [], [b"c"]]


def test_a_time_out_ends_the_wait(bell, visitors):
    bell.wait(0.01)
    assert not any(visitor.heard for visitor in visitors)


def test_waking_ends_the_wait_now_or_later(bell, visitors):
    bell.wake()
    bell.wake()
    bell.wait(None)  # Both at once.
    thread = threading.Thread(target=bell.wait, args=(None,), daemon=True)
    thread.start()
    assert thread.is_alive()
    bell.wake()
    thread.join(DEADLINE_SECS)
    assert not thread.is_alive()


def test_who_is_forgotten_may_ring_as_he_likes(bell, visitors):
    bell.forget(visitors[0])
    visitors[0].outside.send(b"a")
    visitors[1].outside.send(b"b")
    bell.wait(DEADLINE_SECS)
    assert (visitors[0].heard, visitors[1].heard) == ([], [b"b"])
    bell.forget(visitors[0])  # A second time does nothing.
    bell.watch(visitors[0])
    bell.wait(DEADLINE_SECS)
    assert visitors[0].heard == [b"a"]


def test_who_leaves_while_answered_is_forgotten(bell, visitors):
    visitors[0].outside.close()
    bell.wait(DEADLINE_SECS)
    assert visitors[0].heard == [b""]
    bell.wait(0.01)
    assert visitors[0].heard == [b""]


def test_more_visitors_than_are_answered_at_once(bell):
    crowd = [Visitor(bell) for _ in range(300)]
    for visitor in crowd:
        visitor.outside.send(b"x")
    for _ in range(2):
        bell.wait(DEADLINE_SECS)
    assert all(visitor.heard == [b"x"] for visitor in crowd)
    for visitor in crowd:
        visitor.leave()


def test_a_bell_closes_its_descriptors():
    importing = "from seed_rl.serving.doorbell import make_bell"
    assert descriptors_after(importing, "bell = make_bell()", "del bell") == [2, 0]
