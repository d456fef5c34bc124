"""Inference in a learner: server, batcher and inference threads, all between the wire and the experience."""

import functools
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from seed_rl.experience.base import ClosedError, Experience
from seed_rl.inference.core import Core
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.learner.team import Team
from seed_rl.metrics.idle_time import INFERENCE_FOR_REQUESTS
from seed_rl.metrics.run import RunMetrics
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connections import Connections
from seed_rl.serving.request import Request
from seed_rl.serving.server import InferenceServer
from seed_rl.serving.shared_memory import make_wake_up_set
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
    ):
        """Starts serving; in a synchronous run, inference is left to `answer`.

        `cores` compute the actions, each for its part of the environments; a synchronous run has one.
        `metrics` receive episodes and actors. `background` is a job of the experience that gets a thread.
        `policy` gives the policy as it is now, for actors that hold it; None: the cores act.

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
        self._server = InferenceServer(*parts, listener=team.listener, on_refusal=metrics.on_refusal)
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

    def requests(self, timeout_secs: float) -> list[tuple[int, Request]]:
        """For a synchronous run: a batch of (client, request) pairs; empty if none arrives in time."""
        with self._cores[0].metrics.waits(INFERENCE_FOR_REQUESTS):
            return self._batchers[0].next_batch(timeout_secs) or []

    def is_connected(self, client: int) -> bool:
        """For a synchronous run: whether the client of a request is still connected."""
        return self._batchers[0].is_connected(client)

    def answer(self, batch: list[tuple[int, Request]]) -> list[Any]:
        """For a synchronous run: answers requests, and returns what `hand_over` takes, of each unroll."""
        return self._cores[0].answer(batch, self._batchers[0], self._server.deliver)

    def hand_over(self, completed: list[Any]) -> None:
        """For a synchronous run: see `InferenceCore.hand_over`."""
        self._cores[0].hand_over(completed)

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
