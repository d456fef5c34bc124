"""The kernel of a simulated machine: sockets, event loops and file operations in virtual time.

Unix sockets, shared memory and files are real; only waiting is not. A process that dies closes its sockets,
and may die before or after any operation on files.
"""

import asyncio
import contextlib
import os
import select
import selectors
import socket
import struct
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from tests.simulation.schedule import Schedule


class _Selector(selectors.PollSelector):
    def __init__(self, schedule: Schedule):
        super().__init__()
        self._schedule = schedule

    def select(self, timeout: float | None = None) -> Any:
        now = super().select
        if not (found := now(0)) and (timeout is None or timeout > 0):
            self._schedule.wait(timeout, lambda: now(0))
            found = now(0)
        return found


class Loop(asyncio.SelectorEventLoop):
    """An event loop, which runs in one task."""

    def __init__(self, schedule: Schedule):
        self._schedule = schedule
        super().__init__(_Selector(schedule))

    def time(self) -> float:
        """See `asyncio.AbstractEventLoop.time`."""
        return self._schedule.now

    def close(self) -> None:
        """Closes the loop and the coroutines of a world that is gone."""
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(Exception):
                task.get_coro().close()  # type: ignore[union-attr]
        super().close()


class Epoll:
    """`select.epoll`."""

    def __init__(self, schedule: Schedule):
        self._schedule, self._epoll = schedule, select.epoll()
        self.register, self.unregister = self._epoll.register, self._epoll.unregister
        self.close = self._epoll.close

    def poll(self, timeout_secs: float | None, most: int) -> list[tuple[int, int]]:
        """See `select.epoll.poll`."""
        if not (found := self._epoll.poll(0, most)):
            self._schedule.wait(timeout_secs, lambda: self._epoll.poll(0, 1))
            found = self._epoll.poll(0, most)
        return found


class Socket(socket.socket):
    """A socket that belongs to the process in which it was made."""

    schedule: Schedule
    owners: dict[str, list["Socket"]]

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._secs: float | None = None
        self._poll = select.poll()
        self._poll.register(self.fileno(), select.POLLIN)
        self.owners.setdefault(self.schedule.current.process, []).append(self)

    def accept(self) -> Any:
        """See `socket.socket.accept`."""
        accepted, address = super().accept()
        return type(self)(fileno=accepted.detach()), address

    def settimeout(self, secs: float | None) -> None:
        """Sets the virtual time that calls wait."""
        self._secs = secs

    def setsockopt(self, level: int, option: int, value: Any) -> None:  # type: ignore[override]
        """Sets that time; it is the only option that is used."""
        assert option == socket.SO_RCVTIMEO
        self._secs = float(struct.unpack("ll", value)[0])

    def _await(self, flags: int) -> int:
        """Waits until there is something to read, unless the flags say not to; returns others, with that."""
        if self.getblocking() and not flags & socket.MSG_DONTWAIT and not self._poll.poll(0):
            self.schedule.wait(self._secs, lambda: self._poll.poll(0))
        return flags | socket.MSG_DONTWAIT

    def recv(self, size: int, flags: int = 0) -> bytes:
        """See `socket.socket.recv`."""
        return super().recv(size, self._await(flags))

    def recvmsg(self, size: int, ancillary: int = 0, flags: int = 0) -> Any:
        """See `socket.socket.recvmsg`."""
        return super().recvmsg(size, ancillary, self._await(flags))


def stand_ins(schedule: Schedule) -> dict[str, Any]:
    """What takes the place of the modules `socket` and `select`."""
    owners: dict[str, list[Socket]] = {}
    own = type("Socket", (Socket,), {"schedule": schedule, "owners": owners})

    def close_all(process: str) -> None:
        for each in owners.pop(process, []):
            each.close()

    schedule.at_death.append(close_all)
    return {
        "socket": types.SimpleNamespace(**{**vars(socket), "socket": own}),
        "select": types.SimpleNamespace(epoll=lambda: Epoll(schedule), EPOLLIN=select.EPOLLIN),
    }


# Functions by which files get and lose their names.
_FILE_OPERATIONS = ("replace", "rename", "unlink", "mkdir", "rmdir", "scandir", "fsync")


@contextlib.contextmanager
def interrupted_file_operations(may_die: Callable[[], None]) -> Iterator[None]:
    """Calls `may_die` before and after each operation on files. Nothing is synced: no machine loses power."""

    def wrapped(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            may_die()
            result = None if name == "fsync" else real(*args, **kwargs)
            may_die()
            return result

        return call

    with contextlib.ExitStack() as stack:
        for name in _FILE_OPERATIONS:
            stack.enter_context(mock.patch.object(os, name, wrapped(name)))
        yield
