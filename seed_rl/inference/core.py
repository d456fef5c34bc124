"""Inference: takes batches of requests, acts, answers, and stores the steps as experience."""

import contextlib
import functools
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from seed_rl.algorithms.policy import Policy
from seed_rl.experience.base import StepStore
from seed_rl.inference.base import OF_THE_RUN, Answered, Core, Deliver, failed
from seed_rl.inference.env_table import make_table
from seed_rl.inference.players import Opponents, Players
from seed_rl.inference.rows import Rows
from seed_rl.inference.streams import OVER, WAITS, Turns, overflow, problems, too_large
from seed_rl.messages import log_failure
from seed_rl.metrics.batches import BatchMetrics
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.live import Live
from seed_rl.serving.request import Answer, BadStep, Request, ServedGroup
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.codec import ActionCodec, StepCodec


class InferenceCore(Core):
    """Acts for all environments. Several threads may run `serve`."""

    def __init__(
        self,
        policy: Policy,
        spec: EnvironmentSpec,
        num_envs: int,
        num_eval_envs: int,
        store: StepStore,
        weights: Callable[[], contextlib.AbstractContextManager[int]],
        device: str = "",
        metrics: BatchMetrics | None = None,
        compiled_batch_size: int | None = None,
        opponents: Opponents | None = None,
        seed: int = 0,
        live: Live | None = None,
    ):
        """Prepares tables.

        Args:
          policy: chooses the actions.
          spec: of the environments.
          num_envs: environments of the run.
          num_eval_envs: how many of them, the last ones, only evaluate: they produce no experience.
          store: takes the steps of the others; those of several cores may go into the same one.
          weights: holds the policy's weights as they are for a batch; gives their version, the number of
            updates that they have seen.
          device: TensorFlow's name of the inference device; empty: where TensorFlow places it.
          metrics: of inference; those of several cores may be counted together.
          compiled_batch_size: environments in the largest batch that XLA compiles for; None: no XLA.
          opponents: act for players of games in which not all players learn; None: all learn.
          seed: of the draws of players.
          live: the page that shows some of the environments; None: there is none.
        """
        super().__init__(store, metrics, num_eval_envs, device)
        self._steps, self._actions = StepCodec(spec), ActionCodec(spec.action)
        table = functools.partial(
            make_table, spec=spec, num_envs=num_envs, device=device, largest_batch=compiled_batch_size
        )
        self._table, self._players = table(policy), None
        if spec.num_players > 1:
            self._players = Players(self._table, table, spec, num_envs, seed, opponents)
        self._num_envs = num_envs
        self._of_thread = threading.local()
        self._turns = Turns(num_envs)
        self._holders = np.zeros(num_envs, np.int64)  # Those whose episodes the table's rows belong to.
        self._is_unknown = np.zeros(num_envs, bool)  # Whether an episode goes on after an unknown action.
        self._acted = np.zeros(num_envs, np.int64)  # Steps acted on since the process has the environment.
        self._num_training_envs = num_envs - num_eval_envs
        self._weights, self._live = weights, live
        self._lock = threading.Lock()

    def answer(
        self,
        batch: list[tuple[int, Request]],
        batcher: Batcher[Request],
        deliver: Deliver,
    ) -> list[Any]:
        """Acts on one batch; see `Core.answer`."""
        self.metrics.begin([request for _, request in batch])
        if self._store.holds:
            batch = [pair for pair in batch if not self._hold(*pair, batcher)]
            if not batch:
                return []
        answers, completed = self.process([request for _, request in batch])
        self._require_some(answers)
        if WAITS in answers:
            waiting = [answer is WAITS for answer in answers]
            for pair in itertools.compress(batch, waiting):
                if not self._hold(*pair, batcher):
                    self._submit_again(*pair, batcher)  # Training has been quick.
            batch = [pair for pair, waits in zip(batch, waiting, strict=True) if not waits]
            answers = [answer for answer in answers if answer is not WAITS]
            if not batch:
                return completed
        requests = [request for _, request in batch]
        batcher.finish([client for client, _ in batch])
        deliver(list(zip(requests, answers, strict=True)))
        self.metrics.add(requests)
        return completed

    def _hold(self, client: int, request: Request, batcher: Batcher[Request]) -> bool:
        resume = functools.partial(self._submit_again, client, request, batcher)
        return self._store.hold(self._training_ids(request.group), resume)

    @staticmethod
    def _submit_again(client: int, request: Request, batcher: Batcher[Request]) -> None:
        """The time that the request was held back counts as training's, not as inference's."""
        request = request._replace(arrived=time.monotonic())
        batcher.submit_all([(client, request, request.group.num_envs)])

    def process(self, requests: list[Request]) -> Answered:
        """Acts on a batch; returns the answer to each request, and what `hand_over` takes.

        The answer is `WAITS` if the request has to wait for training before it is acted on.

        Raises:
          FloatingPointError: the policy has diverged.
        """
        begin = self._begin
        with self._turns.take([request.group for request in requests]) as (first, over):
            if not (first or over or self._store.holds):
                return self._isolated(requests, self._process_in_turn)
            answers: list[Answer | None] = [
                OVER if r.group in over else self._isolated([r], begin)[0][0] if r.group in first else None
                for r in requests
            ]
            closed = self._close(requests, answers) if self._store.holds else []
            answers_of_others, completed = self._process_others(requests, answers)
            return answers_of_others, closed + completed

    def _close(self, requests: list[Request], answers: list[Answer | None]) -> list[Any]:
        """Stores the steps that end rollouts, and puts answers to them in place; returns what they complete.

        Such a step is not acted on before training is done with the rollout, so the table remains as it is.
        """
        places = [
            place
            for place, (request, answer) in enumerate(zip(requests, answers, strict=True))
            if answer is None and self._store.closing(self._training_ids(request.group)).any()
        ]
        if not places:
            return []
        closing, batch, end, completed = [requests[place] for place in places], self._rows(), 0, list[Any]()
        batch.fill([request.records for request in closing], _env_ids(closing))
        records = batch.rows["record"]
        found = dict(zip(places, problems(self._steps, records, closing), strict=True))
        for place, request in zip(places, closing, strict=True):
            begin, end = end, end + request.group.num_envs
            answers[place] = found[place]
            if found[place] is None:
                close = functools.partial(self._close_one, records=records[begin:end])
                [answers[place]], done = self._isolated([request], close)
                completed += done
        return completed

    def _close_one(self, requests: list[Request], records: np.ndarray) -> Answered:
        """Stores the step of one request, which has these records."""
        group, env = requests[0].group, self._steps.views(records)
        if (large := too_large(env)).any():
            return [self._end_stream(group, group.env_ids[large])], []
        closing = group.env_ids < self._num_training_envs
        if self._players:
            closing &= self._players.learns(records, requests[0])
        closing[closing] = self._store.closing(group.env_ids[closing])
        completed = self._store.end_unrolls(
            group.env_ids[closing], optree.tree_map(lambda x: x[closing], env)
        )
        takes_others = self._store.takes(self._training_ids(group)).any()  # Of players, some may go on.
        return [None if takes_others else WAITS], completed

    def _process_in_turn(self, requests: list[Request]) -> Answered:
        """Does the same for streams whose turn it is, while no other thread acts for their environments."""
        batch, env_ids = self._rows(), _env_ids(requests)
        batch.fill([request.records for request in requests], env_ids)
        if not self._steps.are_valid(batch.rows["record"]):
            answers = problems(self._steps, batch.rows["record"], requests)
            return self._process_others(requests, answers)
        return self._act(batch.rows, env_ids, requests)

    def _process_others(self, requests: list[Request], answers: Sequence[Answer | None]) -> Answered:
        """Acts on the requests that have no answer yet."""
        good = [request for request, answer in zip(requests, answers, strict=True) if answer is None]
        others, completed = self._isolated(good, self._process_in_turn) if good else ([], [])
        remaining = iter(others)
        return [next(remaining) if answer is None else answer for answer in answers], completed

    def _rows(self) -> Rows:
        """This thread's memory for a batch: TensorFlow reads it while other threads fill theirs."""
        if not hasattr(self._of_thread, "rows"):
            self._of_thread.rows = Rows(self._steps.record, self._num_envs)
        return self._of_thread.rows

    def _act(self, rows: np.ndarray, env_ids: np.ndarray, requests: list[Request]) -> Answered:
        """Acts on a batch of valid steps, and stores those that the network has an answer to."""
        counts, turn = env_ids < self._num_training_envs, None
        known, acting, act = ~self._is_unknown[env_ids], env_ids, self._table.act
        if self._players:
            turn = self._players.begin(rows["record"], requests)
            act = functools.partial(self._players.act, turn=turn)
            counts, acting = counts & turn.learns, env_ids[turn.acts]
            known |= rows["record"]["done"]  # No action before it matters to a player.
        training = np.flatnonzero(counts & known)
        self._is_unknown[acting] = False
        if self._store.holds:
            training = training[self._store.takes(env_ids[training])]
        training_ids = env_ids[training]
        starting = self._store.starting(training_ids)
        rows["starts"][training[starting]] = True
        with self._weights() as version:
            prev_action, output, states, is_good = act(rows)
        if self._live is not None:
            output = self._live.see(env_ids, rows["record"], output)
        self._acted[env_ids] += 1
        answers: list[Answer] = [*self._split(output.action, requests)]
        if not (is_good.all() and self._actions.are_possible(output.action)):
            possible = [self._actions.are_possible(action) for action in output.action]
            is_good = self._refuse(requests, answers, is_good & possible)
            states = optree.tree_map(lambda x: x[is_good[rows["starts"]]], states)
            training, counts = training[is_good[training]], counts & is_good
            training_ids, starting = env_ids[training], np.flatnonzero(rows["starts"][training])
        if turn is not None:
            rows["record"]["truncated"][turn.leaves] = True
        step = (prev_action, self._steps.views(rows["record"]), output)
        if len(training) < len(env_ids):
            step = optree.tree_map(lambda x: x[training], step)
        try:
            added = training_ids, step, starting, states, version
            completed = self._store.append(*added) if len(training) else []
        except OF_THE_RUN:
            raise
        except Exception as error:  # They have been acted on, and must not be again.
            log_failure("storing steps", error)
            for request in requests:
                self._drop_unrolls(request.group)
            return [failed(error)] * len(requests), []
        with self._lock:
            self.agent_steps += int(np.count_nonzero(counts & ~rows["record"]["truncated"]))
        return answers, completed

    def _refuse(self, requests: list[Request], answers: list[Answer], is_good: np.ndarray) -> np.ndarray:
        """Refuses the streams that make the network overflow: puts error messages into `answers`.

        The state that inference keeps for their environments is reset, so that none of it is left for the
        next stream. Takes whether the network has an answer for each environment `[B]`; returns whether the
        stream of each continues.

        Raises:
          FloatingPointError: the policy itself is at fault.
        """
        if not self._table.policy_is_finite():
            raise FloatingPointError(
                "The policy has diverged: its weights or its answers are no longer finite; lower "
                "--learning_rate or --clip_norm and resume from the last checkpoint."
            )
        is_good, end = is_good.copy(), 0
        for index, request in enumerate(requests):
            rows = slice(end, end := end + request.group.num_envs)
            env_ids = request.group.env_ids
            if not is_good[rows].all():
                answers[index] = self._end_stream(request.group, env_ids[~is_good[rows]])
                is_good[rows] = False
        return is_good

    def _end_stream(self, group: ServedGroup, env_ids: np.ndarray) -> BadStep:
        """Drops everything of a group with environments that make the network overflow; the answer to it."""
        self._drop_unrolls(group)
        (self._players or self._table).reset(group.env_ids)
        self._acted[group.env_ids] = -1
        return overflow(env_ids)

    def _split(self, actions: np.ndarray, requests: list[Request]) -> list[bytes]:
        """The bytes of each request's actions."""
        data, end, answers = self._actions.encode(actions), 0, []
        for request in requests:
            begin, end = end, end + request.group.num_envs * self._actions.action_bytes
            answers.append(data[begin:end])
        return answers

    def _begin(self, requests: list[Request]) -> Answered:
        """Starts a request's group: drops unfinished unrolls, and resets the table for a new process.

        The answer is the last actions, if the same process had the group before, its connection was lost, and
        its step has been acted on already; else None. Episodes that a new process goes on with, because the
        learner has restarted, are stored from their next step on: the action before this one is not known.
        """
        (request,) = requests
        group, env_ids, applied = request.group, request.group.env_ids, request.applied or 0
        self._drop_unrolls(group)
        is_new = bool((self._holders[env_ids] != group.holder).any())
        if is_new:
            (self._players or self._table).reset(env_ids)
            self._holders[env_ids] = group.holder
            # Of the whole group, whose environments remain at the same step of their unrolls.
            env = self._steps.decode(request.records)
            self._is_unknown[env_ids] = not (env.done & ~env.truncated).all()
        elif (self._acted[env_ids] == applied + 1).all():
            return [self._actions.encode((self._players or self._table).last_action(env_ids))], []
        self._acted[env_ids] = applied
        return [None], []

    def _drop_unrolls(self, group: ServedGroup) -> None:
        """Drops the unfinished unrolls of a stream's environments; those to come belong to this stream."""
        self._store.reset(self._training_ids(group), group.key)

    def _training_ids(self, group: ServedGroup) -> np.ndarray:
        """The ids of a stream's environments that do not only evaluate."""
        return group.env_ids[group.env_ids < self._num_training_envs]


def _env_ids(requests: list[Request]) -> np.ndarray:
    """The ids of all environments in a batch `[B]`."""
    return np.concatenate([request.group.env_ids for request in requests])
