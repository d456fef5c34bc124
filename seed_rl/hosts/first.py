"""The first learner host: whom the others come to. No TensorFlow."""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import grpc

from seed_rl.hosts.peers import (
    GATHERING,
    METHOD,
    OVER,
    PROBING,
    RUNNING,
    HostsDisagreeError,
    Peers,
    decode,
    encode,
)
from seed_rl.serving.listener import Listener
from seed_rl.wire.hosts import SERVICE, LearnerHosts

_LEAVE_SECS = 10.0


@dataclasses.dataclass
class _Member:
    """Another host, as it last described itself."""

    collective: str
    probed: bool = False
    progress: dict[str, Any] = dataclasses.field(default_factory=dict)


class FirstHost(Peers):
    """Host 0."""

    def __init__(
        self,
        hosts: LearnerHosts,
        listener: Listener,
        timeout_secs: float,
        identity: Mapping[str, Any],
    ):
        """Prepares to be called; see `Peers`.

        Args:
          hosts: all of them; this is the first.
          listener: where the others call.
          timeout_secs: how long a host may be silent, or wait for the others.
          identity: settings and versions that all hosts must share.
        """
        super().__init__(hosts, listener, timeout_secs, identity)
        self._phase = GATHERING
        self._members: dict[int, _Member] = {}
        handler = grpc.stream_stream_rpc_method_handler(self._talk)
        name = METHOD.rpartition("/")[2]
        listener.add(grpc.method_handlers_generic_handler(SERVICE, {name: handler}))

    def meet(self, stopping: Callable[[], bool]) -> list[str]:
        """See `Peers.meet`."""
        others = set(range(1, self.hosts.count))
        if not self._wait(lambda: self._members.keys() == others, stopping):
            if stopping():
                return []
            self._disagree(self._absence(sorted(others - self._members.keys())))
        self._phase = PROBING
        if sentence := self._probe(self._collectives()):
            self._disagree(sentence)
        if not self._wait(lambda: all(m.probed for m in self._members.values()), stopping):
            if stopping():
                return []
            self._disagree(f"The learner hosts did not reach one another within {self._timeout_secs:g} s.")
        found = self._collectives()
        self._free_port()
        self._phase = RUNNING
        self._start(self._watch_progress)
        return found

    def leave(self, reason: str = "") -> None:
        """See `Peers.leave`."""
        if self._is_leaving.is_set():
            return
        if reason and not self.problem:
            self.problem = f"{self.hosts.name(0)} failed: {reason}"
        self._is_leaving.set()
        self._phase = OVER
        self._wait_for(lambda: not self._members, _LEAVE_SECS)
        self._end()

    def _wait(self, condition: Callable[[], bool], stopping: Callable[[], bool]) -> bool:
        reached = self._wait_for(lambda: bool(self.problem) or condition(), self._timeout_secs, stopping)
        if self.problem:
            raise HostsDisagreeError(self.problem)
        return reached

    def _disagree(self, sentence: str) -> None:
        self.problem = self.problem or sentence
        raise HostsDisagreeError(self.problem)

    def _collectives(self) -> list[str]:
        return [self._collective, *(self._members[i].collective for i in range(1, self.hosts.count))]

    async def _talk(self, requests: Any, context: Any) -> None:
        """Serves the stream of another host from its first message to its last one."""
        index: int | None = None
        why = "its connection ended"
        try:
            message = await self._read(context)
            index = await self._admit(message, context)
            while True:
                await context.write(encode(self._reply()))
                message = await self._read(context)
                if "left" in message:
                    if message["left"]:
                        self._fail(f"{self.hosts.name(index)} failed: {message['left']}")
                    why = ""
                    return
                self._heard(index, message)
        except ConnectionError:
            pass
        except TimeoutError:
            why = f"it has been silent for {self._timeout_secs:g} s"
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"it sent something else than expected: {error!r}"
        finally:
            if index is not None:
                with self._changed:
                    del self._members[index]
                    self._changed.notify_all()
                if why and self._phase != GATHERING:
                    self._fail(f"{self.hosts.name(index)} is lost: {why}.")

    async def _read(self, context: Any) -> dict[str, Any]:
        data = await asyncio.wait_for(context.read(), self._timeout_secs)
        if data is grpc.aio.EOF:
            raise ConnectionError
        return decode(data)

    async def _admit(self, message: dict[str, Any], context: Any) -> int:
        """Takes a host in, or ends its stream."""
        index = int(message["index"])
        if not 0 < index < self.hosts.count:
            sentence = f"There is no learner host {index}; --learner_index must be below {self.hosts.count}."
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, sentence)
        if index in self._members or self._phase != GATHERING:
            sentence = (
                f"Another process is {self.hosts.name(index)} already; give each learner host its own "
                "--learner_index, and stop processes of an earlier run."
            )
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, sentence)
        if found := _differences(self._identity, message["identity"]):
            sentence = (
                f"{self.hosts.name(index)} differs from {self.hosts.name(0)} ({found}); start all learner "
                "hosts with the same flags and versions."
            )
            self._fail(sentence)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, sentence)
        with self._changed:
            self._members[index] = _Member(message["collective"])
            self._changed.notify_all()
        return index

    def _reply(self) -> dict[str, Any]:
        collectives = self._collectives() if self._phase == PROBING else []
        return {"phase": self._phase, "collectives": collectives, "problem": self.problem}

    def _heard(self, index: int, message: dict[str, Any]) -> None:
        member = self._members[index]
        if message["sentence"]:
            self._fail(message["sentence"])
        progress = {name: float(message["progress"][name]) for name in ("entered", "waiting")}
        with self._changed:
            member.probed, member.progress = bool(message["probed"]), progress
            self._changed.notify_all()
        if message["report"]:
            self.on_report(index, message["report"])

    async def _watch_progress(self) -> None:
        """Notices that an update hangs, because a host does not join it or the reduction does not end."""
        while not self._is_leaving.is_set() and not self.problem:
            progress = {0: self._progress.message()}
            progress |= {i: member.progress for i, member in self._members.items() if member.progress}
            if max(p["waiting"] for p in progress.values()) > self._timeout_secs:
                last = max(p["entered"] for p in progress.values())
                late = [self.hosts.name(i) for i, p in sorted(progress.items()) if p["entered"] < last]
                if late:
                    self._fail(
                        f"{', '.join(late)} did not join an update within {self._timeout_secs:g} s; look at "
                        "its output, or raise --host_timeout_secs if it was saving a checkpoint."
                    )
                else:
                    self._fail(
                        f"An update of the {self.hosts.count} learner hosts did not end within "
                        f"{self._timeout_secs:g} s; check the network between them, or raise "
                        "--host_timeout_secs."
                    )
            await asyncio.sleep(self._beat_secs)


def _differences(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Names and values that differ; empty if none does."""
    names = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    return "; ".join(f"{name}: {mine.get(name)} here, {theirs.get(name)} there" for name in names)
