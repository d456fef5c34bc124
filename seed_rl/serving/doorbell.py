"""Where inference waits for the rings of many actors at once. Linux only; no TensorFlow."""

import os
import select
from typing import Protocol

from seed_rl.wire.board import is_supported

_MOST_EVENTS = 256


class Ringing(Protocol):
    """A connection whose other end rings."""

    def fileno(self) -> int:
        """Its descriptor; -1 once it is closed."""

    def answer_door(self) -> None:
        """Called, by the thread that waits, when something has arrived."""


class Doorbell:
    """A `Bell` of the batcher: one thread waits, any other may watch, forget and wake."""

    def __init__(self) -> None:
        """Watches nothing yet."""
        self._epoll = select.epoll()
        self._connections: dict[int, Ringing] = {}
        self._woken = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._woken, select.EPOLLIN)

    def watch(self, connection: Ringing) -> None:
        """From now on, waits for this connection too."""
        self._connections[connection.fileno()] = connection
        self._epoll.register(connection.fileno(), select.EPOLLIN)

    def forget(self, connection: Ringing) -> None:
        """No longer waits for a connection, which is still open."""
        if self._connections.pop(connection.fileno(), None):
            self._epoll.unregister(connection.fileno())

    def wait(self, timeout_secs: float | None) -> None:
        """Waits until connections ring, for another thread, or for the time-out; answers all that ring."""
        for descriptor, _ in self._epoll.poll(timeout_secs, _MOST_EVENTS):
            if descriptor == self._woken:
                os.eventfd_read(self._woken)
            elif connection := self._connections.get(descriptor):
                connection.answer_door()

    def wake(self) -> None:
        """Ends `wait` in another thread."""
        os.eventfd_write(self._woken, 1)

    def __del__(self) -> None:
        """Closes its descriptors."""
        self._epoll.close()
        os.close(self._woken)


def make_bell() -> Doorbell | None:
    """A doorbell; None where the board is not supported."""
    return Doorbell() if is_supported() else None
