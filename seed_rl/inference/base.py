"""The interface of inference cores: they take batches of requests and answer them. Imports no TensorFlow."""

import abc
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from seed_rl.experience.base import ClosedError, MisfitError, StepStore
from seed_rl.messages import log_failure, one_line
from seed_rl.metrics.batches import BatchMetrics
from seed_rl.metrics.idle_time import INFERENCE_FOR_REQUESTS, INFERENCE_FOR_TRAINING
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.request import Answer, BadStep, Request

Deliver = Callable[[list[tuple[Request, Answer]]], None]
Answered = tuple[list[Any], list[Any]]  # The answers to requests, and what `hand_over` takes.

# Errors of the run, whichever request meets them first.
OF_THE_RUN = FloatingPointError, ClosedError, MisfitError, MemoryError

# After so long in which nothing but errors was the answer, they are not the requests' fault.
_FAILING_SECS = 10.0


class Core(abc.ABC):
    """Answers requests, and stores what they bring as experience. Several threads may run `serve`.

    Attributes:
      metrics: of requests.
      agent_steps: see "Counting" in `seed_rl.types`.
      num_eval_envs: environments that only evaluate, the last ones.
      device: TensorFlow's name of the inference device; empty: where TensorFlow places it, or none.
    """

    def __init__(
        self, store: StepStore, metrics: BatchMetrics | None = None, num_eval_envs: int = 0, device: str = ""
    ):
        """Takes experience into `store`; `metrics` of several cores may be counted together."""
        self.metrics = metrics or BatchMetrics()
        self.agent_steps, self.num_eval_envs, self.device = 0, num_eval_envs, device
        self._store = store
        self._failing_since = math.inf  # When all requests of all later batches have raised errors.

    def serve(self, batcher: Batcher[Request], deliver: Deliver) -> None:
        """Answers batches until the batcher is closed.

        Raises:
          ClosedError: the experience was closed.
          FloatingPointError: the policy has diverged; the batch stays unanswered.
        """
        waits = self.metrics.waits
        while True:
            with waits(INFERENCE_FOR_REQUESTS):
                batch = batcher.next_batch()
            if batch is None:
                return
            completed = self.answer(batch, batcher, deliver)
            del batch  # Its requests keep the shared memory of actors that may be gone by the next one.
            if completed:
                with waits(INFERENCE_FOR_TRAINING):
                    self.hand_over(completed)

    def hand_over(self, completed: list[Any]) -> None:
        """Leaves to training what a batch completed; may block (back-pressure). See `StepStore.hand_over`."""
        self._store.hand_over(completed)

    def _isolated(self, requests: list[Request], answer: Callable[[list[Request]], Answered]) -> Answered:
        """Result of `answer` for requests; if it raises, results for each alone, or the error of this one."""
        try:
            return answer(requests)
        except OF_THE_RUN:
            raise
        except Exception as error:
            log_failure("inference", error)
            if len(requests) == 1:
                return [failed(error)], []
        parts = [self._isolated([request], answer) for request in requests]
        return [a for answers, _ in parts for a in answers], [c for _, done in parts for c in done]

    def _require_some(self, answers: Sequence[Any]) -> None:
        """Raises the error of a batch if all requests have raised some for too long."""
        errors = [answer.error for answer in answers if isinstance(answer, BadStep) and answer.error]
        now = time.monotonic()
        self._failing_since = math.inf if len(errors) < len(answers) else min(self._failing_since, now)
        if now - self._failing_since > _FAILING_SECS:
            raise errors[0]

    @abc.abstractmethod
    def answer(
        self, batch: list[tuple[int, Request]], batcher: Batcher[Request], deliver: Deliver
    ) -> list[Any]:
        """Answers one batch of (client, request) pairs; returns what `hand_over` takes.

        Requests of environments that have to wait for training stay unanswered; they will be submitted again.
        """


def failed(error: Exception) -> BadStep:
    """The answer to a step at which an error was raised here."""
    return BadStep(f"The learner failed at this step ({one_line(repr(error), 200)}); see its log.", error)
