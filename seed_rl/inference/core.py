"""Inference: takes batches of requests, acts, answers, and files the steps as experience."""

import threading
import time
from collections.abc import Callable

import numpy as np
import optree

from seed_rl.agents.base import Agent
from seed_rl.experience.unroll_store import UnrollStore
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.env_table import EnvTable
from seed_rl.inference.service import Request
from seed_rl.types import EnvironmentSpec, Unroll
from seed_rl.wire.codec import ActionCodec, StepCodec


class InferenceFigures:
    """Latencies and batch sizes since they were last taken. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latencies: list[float] = []
        self._batch_sizes: list[int] = []

    def add(self, latencies: list[float], batch_size: int) -> None:
        """Adds a batch: seconds from arrival to answer of its requests, and its environments."""
        with self._lock:
            self._latencies += latencies
            self._batch_sizes.append(batch_size)

    def take(self) -> dict[str, float]:
        """The figures by plain name, and starts anew; empty if there was no inference."""
        with self._lock:
            latencies, self._latencies = self._latencies, []
            sizes, self._batch_sizes = self._batch_sizes, []
        if not sizes:
            return {}
        p50, p99 = np.percentile(latencies, [50, 99])
        return {
            "inference_latency_p50_ms": 1e3 * float(p50),
            "inference_latency_p99_ms": 1e3 * float(p99),
            "inference_batch_size": float(np.mean(sizes)),
        }


class InferenceCore:
    """Acts for all environments. Several threads may run `serve`."""

    def __init__(
        self,
        agent: Agent,
        spec: EnvironmentSpec,
        num_envs: int,
        insert: Callable[[list[Unroll]], None],
        policy_version: Callable[[], int],
    ):
        """Prepares tables and stores.

        Args:
          agent: acts.
          spec: of the environments.
          num_envs: of the run; the last `agent.num_eval_envs` of them leave no experience.
          insert: takes finished unrolls; may block (back-pressure).
          policy_version: the number of updates so far.
        """
        self.figures = InferenceFigures()
        self.agent_steps = 0
        self._steps, self._actions = StepCodec(spec), ActionCodec(spec.action)
        self._table = EnvTable(agent, spec, num_envs)
        self._num_training_envs = num_envs - agent.num_eval_envs
        self._store = UnrollStore(
            self._num_training_envs, agent.unroll.length, agent.unroll.burn_in, stagger=True
        )
        self._insert, self._policy_version = insert, policy_version
        self._lock = threading.Lock()

    def serve(
        self, batcher: Batcher[Request], deliver: Callable[[list[tuple[Request, bytes]]], None]
    ) -> None:
        """Answers batches until the batcher is closed.

        Raises:
          ClosedError: the experience was closed.
        """
        while (batch := batcher.next_batch()) is not None:
            if unrolls := self.answer(batch, batcher, deliver):
                self._insert(unrolls)

    def answer(
        self,
        batch: list[tuple[int, Request]],
        batcher: Batcher[Request],
        deliver: Callable[[list[tuple[Request, bytes]]], None],
    ) -> list[Unroll]:
        """Answers one batch of (client, request) pairs; returns the unrolls that it completed."""
        requests = [request for _, request in batch]
        answers, unrolls = self.process(requests)
        batcher.finish([client for client, _ in batch])
        deliver(list(zip(requests, answers, strict=True)))
        now = time.monotonic()
        num_envs = sum(request.lease.num_envs for request in requests)
        self.figures.add([now - request.arrived for request in requests], num_envs)
        return unrolls

    def process(self, requests: list[Request]) -> tuple[list[bytes], list[Unroll]]:
        """Acts on a batch: the bytes of each request's actions, and the unrolls that it completed."""
        for request in requests:
            if request.is_first:
                self._begin(request)
        env_ids = np.concatenate([request.lease.env_ids for request in requests])
        records = b"".join(request.records for request in requests)
        version = self._policy_version()
        training = np.flatnonzero(env_ids < self._num_training_envs).astype(np.int32)
        training_ids = env_ids[training]
        with self._lock:
            starting = self._store.starting(training_ids)
        prev_action, output, states = self._table.act(env_ids, records, training[starting])
        step = (prev_action, self._steps.decode(records), output)
        if len(training) < len(env_ids):
            step = optree.tree_map(lambda x: x[training], step)
        with self._lock:
            unrolls = self._store.append(training_ids, *step, starting, states, version)
            self.agent_steps += len(training)
        ends = np.cumsum([request.lease.num_envs for request in requests])
        return [self._actions.encode(a) for a in np.split(output.action, ends[:-1])], unrolls

    def _begin(self, request: Request) -> None:
        """A stream begins: its unfinished unrolls are void; a new actor's environments start clean."""
        env_ids = request.lease.env_ids
        with self._lock:
            self._store.reset(env_ids[env_ids < self._num_training_envs])
        if request.lease.is_new_run:
            self._table.reset(request.lease.env_ids)
