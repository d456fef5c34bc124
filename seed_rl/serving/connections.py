"""All connections of a learner: their tasks, redirects of actors, and requests that wait for an answer.

No gRPC streams, no sockets, no TensorFlow.
"""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import grpc

from seed_rl.hosts.addresses import LearnerHosts
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connection import Carrier, Connection, OnEnd, Refusal, failure, refuse
from seed_rl.serving.request import Answer, Episode, Request
from seed_rl.serving.tasks import NoTaskError, Task, Tasks
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import PROTOCOL_VERSION, EnvironmentDescription, record_size
from seed_rl.wire.ranges import first_problem


class Connections:
    """The connections. Thread-safe, but for `join`, `ready` and `end`, which belong to the event loop.

    Attributes:
      spec: of the environments.
      num_envs: environments of the run.
      batchers: where steps go.
      size: of requests, which are steps or unrolls.
    """

    def __init__(
        self,
        environment: EnvironmentDescription,
        num_envs: int,
        batchers: Sequence[Batcher[Request]],
        max_group_size: int,
        on_actor: Callable[[Task], None] = lambda task: None,
        on_episodes: Callable[[list[Episode]], None] = lambda episodes: None,
        num_eval_envs: int = 0,
        seed: int = 0,
        hosts: LearnerHosts | None = None,
        gateways: Callable[[], Sequence[str]] = tuple,
        policy: Callable[[], pb.Policy] | None = None,
    ):
        """Starts without connections.

        Args:
          environment: the environments that actors play.
          num_envs: environments of the run.
          batchers: where steps go, one for each part of the environments.
          max_group_size: most environments in a group.
          on_actor: called with the task of each actor that is ready.
          on_episodes: called with finished episodes.
          num_eval_envs: how many environments, the last ones, only evaluate.
          seed: of the run.
          hosts: all learner hosts, if there are several; this one serves its share of the environments.
          gateways: returns the addresses of the gateways to which actors are sent, if there are any.
          policy: gives the policy as it is now, for actors that hold it; None: the learner acts.
        """
        self.spec, self.num_envs, self.batchers = environment.spec, num_envs, batchers
        self._max_group_size = max_group_size
        self._served = hosts.served(num_envs) if hosts else range(num_envs)
        self._tasks = Tasks(num_envs, num_eval_envs, self._served)
        self._on_actor, self._on_episodes = on_actor, on_episodes
        self._hosts, self._gateways, self._policy = hosts, gateways, policy
        self._welcome = pb.Welcome(seed=seed)
        environment.describe_into(self._welcome)
        self.size = record_size(self._make_welcome())
        self._keys = itertools.count()
        self._next_host = itertools.count(hosts.index if hosts else 0)
        self._next_gateway = itertools.count()
        self._at_gateways: set[int] = set()  # Processes that were sent there, and have not joined from there.
        self._ended: tuple[Refusal | None] | None = None
        self._lock = threading.Lock()  # Of the tasks, and of the two tables.
        self._connections: dict[Connection, OnEnd] = {}
        self._waiting: dict[int, tuple[Connection, int]] = {}  # By group's key: its connection and number.

    def join(
        self, join: pb.Join, on_end: OnEnd, is_near: bool = False
    ) -> tuple[Connection | None, pb.Welcome]:
        """Answers a Join.

        Args:
          join: message of a process.
          on_end: called once with the reason when its connection ends, by any thread.
          is_near: whether it came from this machine or through a gateway, which is why none is named.

        Returns:
          The connection, whose task is its process's until it ends, and the Welcome. None: the process is
          sent elsewhere, or training has ended and `on_end` was called.

        Raises:
          Refusal: why it cannot have a task.
        """
        if self._ended is not None:
            on_end(self._ended[0])
            return None, pb.Welcome()
        self._check(join)
        for old in [c for c in self._connections if c.process_id == join.process_id]:
            old.end(Refusal(grpc.StatusCode.ABORTED, "A newer connection of this actor has taken over."))
        if address := self._better_address(join, is_near):
            return None, pb.Welcome(address=address)
        with self._lock:
            try:
                task = self._tasks.take(join.process_id, join.num_envs, join.task)
            except NoTaskError as error:
                if address := self._next_address(join):
                    return None, pb.Welcome(address=address)
                codes = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OUT_OF_RANGE)
                raise Refusal(codes[error.out_of_range], str(error)) from None
            connection = Connection(task, join, self.spec, self.size, self._on_episodes, self._forget)
            self._connections[connection] = on_end
        welcome = self._make_welcome()
        welcome.task, welcome.must_reset = task.number, task.had_others
        return connection, welcome

    def describe_actors(self) -> str:
        """The number of actors that have a task and of their environments, in a few words."""
        with self._lock:
            envs = [len(connection.task.envs) for connection in self._connections]
        return f"{len(envs)} connected, making and resetting {sum(envs)} of {self.num_envs} environments"

    def described(self) -> list[dict[str, Any]]:
        """Facts about each actor that is connected, by task, as JSON values.

        `envs` are the first of its environments and their number, `agent_steps` those since it joined, and
        `restarts` how many other processes had its first environment before.
        """
        now = time.monotonic()
        with self._lock:
            return [
                {
                    "task": c.task.number,
                    "envs": [c.task.envs.start, len(c.task.envs)],
                    "state": "plays" if c.is_ready else "makes its environments",
                    "agent_steps": c.agent_steps,
                    "seen_secs": now - c.last_seen,
                    "restarts": self._tasks.restarts(c.task),
                }
                for c in sorted(self._connections, key=lambda c: c.task.number)
            ]

    def _make_welcome(self) -> pb.Welcome:
        """A Welcome without a task, with the policy as it is now if actors hold it."""
        welcome = pb.Welcome()
        welcome.CopyFrom(self._welcome)
        if self._policy is not None:
            welcome.policy.CopyFrom(self._policy())
        return welcome

    def _check(self, join: pb.Join) -> None:
        """Refuses a Join that does not fit, before it is given anything."""
        precondition = grpc.StatusCode.FAILED_PRECONDITION
        if join.protocol_version != PROTOCOL_VERSION:
            raise Refusal(
                precondition,
                f"The learner speaks protocol version {PROTOCOL_VERSION} and this actor version "
                f"{join.protocol_version}: install the same seed_rl on both.",
            )
        if join.holds_policy != (self._policy is not None):
            sentence = (
                "This learner chooses the actions (--inference=learner), and this actor would, too; start "
                "`seed_rl actor`."
                if join.holds_policy
                else "The actors of this learner choose the actions (--inference=actor); start `seed_rl "
                "policy_actor`, which has the policy."
            )
            raise Refusal(precondition, sentence)
        refuse(first_problem(join))
        if join.num_envs % join.num_groups:
            refuse(
                f"{join.num_envs} environments cannot be split into {join.num_groups} equal groups; make the "
                "first a multiple of the second."
            )
        if (size := join.num_envs // join.num_groups) % self.spec.num_players:
            raise Refusal(
                precondition,
                f"A group of {size} environments cannot have whole games of {self.spec.num_players} players; "
                "make --env_batch_size divided by --num_env_groups a multiple of these.",
            )
        if join.num_envs // join.num_groups > self._max_group_size:
            raise Refusal(
                precondition,
                f"A group of {join.num_envs // join.num_groups} environments exceeds the learner's "
                f"--inference_batch_size={self._max_group_size}; raise it or --num_env_groups.",
            )

    def _better_address(self, join: pb.Join, is_near: bool) -> str:
        """Address for a process's first redirect: the host of its task, or the next one; then a gateway.

        A process that comes back from a gateway without having joined there is served here.
        """
        if join.process_id in self._at_gateways:
            self._at_gateways.remove(join.process_id)
            return ""
        if self._hosts and not join.redirects:
            first = join.task * join.num_envs
            if 0 <= first < self.num_envs:
                index = first // len(self._served)
            else:
                index = next(self._next_host) % self._hosts.count
            if index != self._hosts.index:
                return self._hosts.addresses[index]
        if not is_near and (gateways := self._gateways()):
            if len(self._at_gateways) > self.num_envs:  # Most of these have ended on the way.
                self._at_gateways.clear()
            self._at_gateways.add(join.process_id)
            address = gateways[next(self._next_gateway) % len(gateways)]
            return f":{address.rpartition(':')[2]}"  # Actors have a better name of the host.
        return ""

    def _next_address(self, join: pb.Join) -> str:
        """The next learner host, for a process without a place here; empty if it has been at all."""
        if self._hosts is None or join.redirects >= 2 * self._hosts.count:
            return ""
        return self._hosts.addresses[(self._hosts.index + 1) % self._hosts.count]

    def ready(self, connection: Connection, ready: pb.Ready, carrier: Carrier) -> None:
        """Lets a connection send steps from now on.

        Args:
          connection: the connection.
          ready: message of its process.
          carrier: takes the answers, unless that is its shared memory.

        Raises:
          Refusal: the Ready does not fit.
        """
        connection.check_ready(ready)
        part = len(self._served) / len(self.batchers)
        with self._lock:
            if connection not in self._connections:
                return  # It has ended; its stream has no notice yet.
            holder = self._tasks.begin(connection.task, connection.process_id)
            groups = connection.groups(self._keys, holder)
            for number, group in enumerate(groups):
                self._waiting[group.key] = connection, number
        batchers = [self.batchers[int((g.first_env - self._served.start) // part)] for g in groups]
        self._on_actor(connection.task)
        memory = connection.memory if ready.shares_memory else None
        connection.begin(groups, batchers, ready, memory or carrier)

    def deliver(self, answers: list[tuple[Request, Answer]], call_soon: Callable[..., object]) -> None:
        """Sends answers to the actors that wait for them; `call_soon` calls a function on the event loop."""
        found: dict[Connection, list[tuple[int, bytes]]] = {}
        for request, answer in answers:
            waiting = self._waiting.get(request.group.key)
            if waiting is None:
                continue  # The connection has ended.
            connection, number = waiting
            try:
                actions = connection.answered(number, answer)
            except Exception as error:  # Of what its actor reported; the others get their answers.
                connection.end(failure(error))
                continue
            if actions is not None:
                found.setdefault(connection, []).append((number, actions))
        on_loop = []
        for connection, actions_of in found.items():
            if connection.carrier.is_direct:
                connection.carrier.send(actions_of)
            else:
                on_loop.append((connection.carrier, actions_of))
        if on_loop:
            call_soon(_send_all, on_loop)

    def end(self, reason: str) -> None:
        """Ends all connections, and those to come.

        Args:
          reason: empty if training is complete (actors exit); otherwise why the learner stops for now.
        """
        refusal = Refusal(grpc.StatusCode.UNAVAILABLE, reason) if reason else None
        self._ended = (refusal,)
        for connection in list(self._connections):
            connection.end(refusal)

    def _forget(self, connection: Connection, refusal: Refusal | None) -> None:
        with self._lock:
            on_end = self._connections.pop(connection)
            self._tasks.free(connection.task)
            for key in [key for key, (owner, _) in self._waiting.items() if owner is connection]:
                del self._waiting[key]
        on_end(refusal)


def _send_all(answers: Sequence[tuple[Carrier, Any]]) -> None:
    for carrier, actions in answers:
        carrier.send(actions)
