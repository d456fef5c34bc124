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
from seed_rl.inference.rows import Rows
from seed_rl.inference.service import BadStep, Request
from seed_rl.types import EnvironmentSpec, Unroll
from seed_rl.wire.codec import ActionCodec, StepCodec

Deliver = Callable[[list[tuple[Request, bytes | BadStep]]], None]


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
        self._num_envs = num_envs
        self._spare_rows: list[Rows] = []  # One for each thread that has served.
        self._num_training_envs = num_envs - agent.num_eval_envs
        self._store = UnrollStore(
            self._num_training_envs, agent.unroll.length, agent.unroll.burn_in, stagger=True
        )
        self._insert, self._policy_version = insert, policy_version
        self._lock = threading.Lock()

    def serve(self, batcher: Batcher[Request], deliver: Deliver) -> None:
        """Answers batches until the batcher is closed.

        Raises:
          ClosedError: the experience was closed.
          FloatingPointError: the policy has no actions any more; the batch stays unanswered.
        """
        while (batch := batcher.next_batch()) is not None:
            if unrolls := self.answer(batch, batcher, deliver):
                self._insert(unrolls)

    def answer(
        self,
        batch: list[tuple[int, Request]],
        batcher: Batcher[Request],
        deliver: Deliver,
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

    def process(self, requests: list[Request]) -> tuple[list[bytes | BadStep], list[Unroll]]:
        """Acts on a batch: the answer to each request, and the unrolls that it completed."""
        batch = self._spare_rows.pop() if self._spare_rows else Rows(self._steps.record, self._num_envs)
        env_ids = np.concatenate([request.lease.env_ids for request in requests])
        batch.fill([request.records for request in requests], env_ids)
        if self._steps.are_valid(batch.rows["record"]):
            action, unrolls = self._act(batch.rows, env_ids, requests)
            answers: list[bytes | BadStep] = [*self._split(action, requests)]
        else:
            answers, unrolls = self._process_good_ones(requests)
        self._spare_rows.append(batch)
        return answers, unrolls

    def _process_good_ones(self, requests: list[Request]) -> tuple[list[bytes | BadStep], list[Unroll]]:
        """Acts on the requests of a batch whose steps are valid."""
        answers: list[bytes | BadStep | None] = [self._problem(request) for request in requests]
        good = [request for request, problem in zip(requests, answers, strict=True) if problem is None]
        others, unrolls = self.process(good) if good else ([], [])
        remaining = iter(others)
        return [next(remaining) if answer is None else answer for answer in answers], unrolls

    def _problem(self, request: Request) -> BadStep | None:
        try:
            self._steps.check(request.records, request.lease.num_envs)
        except ValueError as error:
            return BadStep(str(error))
        return None

    def _act(
        self, rows: np.ndarray, env_ids: np.ndarray, requests: list[Request]
    ) -> tuple[np.ndarray, list[Unroll]]:
        """Acts on a batch of good steps: the actions `[B, ...]`, and the unrolls that it completed."""
        for request in requests:
            if request.is_first:
                self._begin(request)
        version = self._policy_version()
        training = np.flatnonzero(env_ids < self._num_training_envs)
        training_ids = env_ids[training]
        with self._lock:
            starting = self._store.starting(training_ids)
        rows["starts"][training[starting]] = True
        prev_action, output, states = self._table.act(rows)
        if not self._actions.are_possible(output.action):
            raise FloatingPointError(
                "The policy's actions are impossible ones: what its network says is no longer finite; lower "
                "--learning_rate or --clip_norm and go on from the last checkpoint."
            )
        step = (prev_action, self._steps.views(rows["record"]), output)
        if len(training) < len(env_ids):
            step = optree.tree_map(lambda x: x[training], step)
        with self._lock:
            unrolls = self._store.append(training_ids, *step, starting, states, version)
            self.agent_steps += len(training)
        return output.action, unrolls

    def _split(self, actions: np.ndarray, requests: list[Request]) -> list[bytes]:
        """The bytes of each request's actions."""
        data, end, answers = self._actions.encode(actions), 0, []
        for request in requests:
            begin, end = end, end + request.lease.num_envs * self._actions.action_bytes
            answers.append(data[begin:end])
        return answers

    def _begin(self, request: Request) -> None:
        """A stream begins: its unfinished unrolls are void; a new actor's environments start clean."""
        env_ids = request.lease.env_ids
        with self._lock:
            self._store.reset(env_ids[env_ids < self._num_training_envs])
        if request.lease.is_new_run:
            self._table.reset(request.lease.env_ids)
