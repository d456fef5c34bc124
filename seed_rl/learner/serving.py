"""Inference in a learner: server, batcher and inference threads, all between the wire and the experience.

Actors that have the policy are served by a core that stores their unrolls, and get the policy from here.
"""

import collections
import functools
import json
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seed_rl.algorithms.base import Algorithm
from seed_rl.devices.publisher import WeightsReader
from seed_rl.experience.base import Batch, ClosedError, Experience, StepStore
from seed_rl.experience.fifo import Fifo
from seed_rl.experience.source import Distribute
from seed_rl.hosts.team import Team
from seed_rl.inference.base import Core, Deliver
from seed_rl.inference.unroll_core import UnrollCore
from seed_rl.inference.unrolls import UnrollCodec
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.metrics.batches import BatchMetrics
from seed_rl.metrics.idle_time import INFERENCE_FOR_REQUESTS
from seed_rl.metrics.run import RunMetrics
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connections import Connections
from seed_rl.serving.live import Live
from seed_rl.serving.request import Request
from seed_rl.serving.server import InferenceServer
from seed_rl.serving.shared_memory import make_wake_up_set
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import EnvironmentDescription
from seed_rl.wire.security import Security

_log = logging.getLogger(__name__)

# Time limit for the end of the threads, and of the server. They need less than a second, unless
# TensorFlow is compiling or the machine is overloaded.
_STOP_SECS = 20.0


class Serving:
    """Everything between the wire and the experience.

    Attributes:
      describe_actors: gives the number of connected actors and of their environments, in a few words.
    """

    def __init__(
        self,
        config: LearnerConfig,
        environment: EnvironmentDescription,
        cores: Sequence[Core],
        metrics: RunMetrics,
        security: Security,
        background: Callable[[], None] | None = None,
        team: Team | None = None,
        policy: Callable[[], pb.Policy] | None = None,
        live: Live | None = None,
    ):
        """Starts serving; in a synchronous run, inference is left to `answer`.

        `cores` compute the actions, each for its part of the environments; a synchronous run has one.
        `metrics` receive episodes and actors. `background` is a job of the experience that gets a thread.
        `policy` gives the policy as it is now, for actors that hold it; None: the cores act.
        `live` is the page for browsers, if there is one.

        Raises:
          AddressError: the server cannot listen on the address.
        """
        team = team or Team()
        self._cores = cores
        self._errors: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
        # Unrolls are not acted on, so nothing is gained by taking several at once.
        wait_secs = 0.0 if policy else config.inference_timeout_ms / 1e3
        self._batchers: list[Batcher[Request]] = [
            Batcher(config.inference_batch_size, wait_secs, make_wake_up_set()) for _ in cores
        ]
        connections = Connections(
            environment,
            config.num_envs,
            self._batchers,
            config.inference_batch_size,
            lambda task: metrics.on_actor(task.had_others),
            metrics.on_episodes,
            cores[0].num_eval_envs,
            config.seed,
            team.hosts,
            team.listener.gateways if team.listener else tuple,
            policy,
        )
        self.describe_actors = connections.describe_actors
        parts = (config.server_address, connections, security)
        self._server = InferenceServer(
            *parts, listener=team.listener, on_refusal=metrics.on_refusal, web=config.web, live=live
        )
        jobs: list[tuple[str, Callable[[], None]]] = [("intake", background)] if background else []
        if not config.synchronous:
            pairs = list(zip(cores, self._batchers, strict=True)) * config.num_inference_threads
            for i, (core, batcher) in enumerate(pairs):
                jobs.append((f"inference-{i}", functools.partial(core.serve, batcher, self._server.deliver)))
        self._threads = [
            threading.Thread(target=self._guarded, args=(job,), name=name, daemon=True) for name, job in jobs
        ]
        for thread in self._threads:
            thread.start()

    def raise_error(self) -> None:
        """Raises the error that ended one of the threads or the server, if there is one."""
        self._server.check()
        if not self._errors.empty():
            raise self._errors.get()

    def stop(self, reason: str, experience: Experience) -> None:
        """Ends the streams and the threads; see `InferenceServer.stop`. Closes the experience.

        Raises nothing: an error that ends a thread meanwhile is left to `raise_error`. Anything that does not
        stop in time is named in a warning, and ends with the process.
        """
        experience.close()
        for batcher in self._batchers:
            batcher.close()
        stop = functools.partial(self._server.stop, reason)
        server = threading.Thread(target=self._guarded, args=(stop,), name="the server", daemon=True)
        _join(self._threads)
        server.start()
        _join([server])

    def lockstep(self, experience: Experience, num_envs: int, distribute: Distribute) -> "Lockstep":
        """Inference and sampling of a synchronous run."""
        return Lockstep(
            self._cores[0], self._batchers[0], self._server.deliver, experience, num_envs, distribute
        )

    def _guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except ClosedError:
            pass
        except BaseException as error:
            self._errors.put(error)


def _join(threads: list[threading.Thread]) -> None:
    """Waits for threads, for `_STOP_SECS` in total."""
    deadline = time.monotonic() + _STOP_SECS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            _log.warning(
                "seed_rl: %s did not stop within %g s; it ends with the learner.", thread.name, _STOP_SECS
            )


def make_unroll_core(
    algorithm: Algorithm,
    spec: EnvironmentSpec,
    settings: Mapping[str, Any],
    store: StepStore,
    metrics: BatchMetrics,
) -> tuple[UnrollCore, WeightsReader, Callable[[], pb.Policy]]:
    """Makes the core for actors that hold the policy, what takes its weights, and what gives it with them.

    `settings` of the run have `agent_name` and `agent`; `store` is the queue's.
    """
    assert isinstance(store, Fifo)
    weights = WeightsReader(algorithm.policy)
    codec = UnrollCodec(algorithm.policy, spec, algorithm.unroll.length)
    description = pb.Policy(
        agent=settings["agent_name"],
        settings={name: json.dumps(value) for name, value in settings["agent"].items()},
        network=weights.network,
        unroll_bytes=codec.size.record_bytes,
        unroll_length=codec.length,
    )

    def policy() -> pb.Policy:
        message = pb.Policy(weights=weights.newer_than(-1))
        message.MergeFrom(description)
        return message

    return UnrollCore(codec, store, weights, metrics), weights, policy


class Lockstep:
    """Takes the place of `experience.source.Source` in a synchronous run.

    All environments act in one batch, in the order of their ids. Then their unrolls are handed over one by
    one, and every batch that this allows is trained on before anything else happens. So nothing depends on
    the order of arrival, and nothing is faster than the slowest actor.
    """

    def __init__(
        self,
        core: Core,
        batcher: Batcher[Request],
        deliver: Deliver,
        experience: Experience,
        num_envs: int,
        distribute: Distribute,
    ):
        """Prepares; none of the run's `num_envs` acts before all of them have requested an action."""
        self._core, self._batcher, self._deliver = core, batcher, deliver
        self._experience, self._num_envs, self._distribute = experience, num_envs, distribute
        self._waiting: dict[int, tuple[int, Request]] = {}  # By first environment; they do not overlap.
        self._completed: collections.deque[Any] = collections.deque()  # To be handed over.

    def next(self, timeout_secs: float) -> Batch | None:
        """The next batch; None if the environments have to act first, which they then do in this call."""
        while self._completed and not self._experience.batch_ready():
            self._core.hand_over([self._completed.popleft()])
        if self._experience.batch_ready():
            found = self._experience.sample()
            return found._replace(sample=self._distribute(found.sample))
        with self._core.metrics.waits(INFERENCE_FOR_REQUESTS):
            requests = self._batcher.next_batch(timeout_secs) or []
        for client, request in requests:
            self._wait_for_others(client, request)
        self._keep(lambda client, request: self._batcher.is_connected(client))
        if sum(request.group.num_envs for _, request in self._waiting.values()) == self._num_envs:
            batch = [self._waiting[first] for first in sorted(self._waiting)]
            self._waiting.clear()
            self._completed.extend(self._core.answer(batch, self._batcher, self._deliver))
        return None

    def _wait_for_others(self, client: int, request: Request) -> None:
        """Adds a request to those that wait; it replaces those of older streams of its environments."""
        new = request.group
        last = new.first_env + new.num_envs - 1
        self._keep(
            lambda client, old: (
                old.group.first_env > last or new.first_env >= old.group.first_env + old.group.num_envs
            )
        )
        self._waiting[new.first_env] = (client, request)

    def _keep(self, is_wanted: Callable[[int, Request], bool]) -> None:
        self._waiting = {
            first: (client, request)
            for first, (client, request) in self._waiting.items()
            if is_wanted(client, request)
        }

    def close(self) -> None:
        """Closes the experience."""
        self._experience.close()
