"""Takes the unrolls of actors that hold the policy into the queue, and answers with newer weights."""

import threading

from seed_rl.devices.publisher import WeightsReader
from seed_rl.experience.fifo import Fifo
from seed_rl.inference.base import Answered, Core, Deliver
from seed_rl.inference.unrolls import UnrollCodec
from seed_rl.metrics.batches import BatchMetrics
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.request import BadStep, Request

# More than play at the same time; others have gone.
_MOST_PROCESSES = 10_000


class UnrollCore(Core):
    """Stores unrolls. Several threads may run `serve`."""

    def __init__(
        self,
        codec: UnrollCodec,
        store: Fifo,
        weights: WeightsReader,
        metrics: BatchMetrics | None = None,
    ):
        """Prepares.

        Args:
          codec: of the unrolls.
          store: takes them.
          weights: gives the weights that actors get.
          metrics: of requests.
        """
        super().__init__(store, metrics)
        self._codec, self._batches, self._weights = codec, store, weights
        self._sent: dict[int, int] = {}  # By holder: the version that it has got.
        self._lock = threading.Lock()

    def answer(
        self, batch: list[tuple[int, Request]], batcher: Batcher[Request], deliver: Deliver
    ) -> list[int]:
        """Stores the unrolls of (client, request) pairs, and answers them; see `Core.answer`."""
        requests = [request for _, request in batch]
        self.metrics.begin(requests)
        taken = [self._isolated([request], self._take) for request in requests]
        answers, completed = [answer for (answer,), _ in taken], [env for _, envs in taken for env in envs]
        self._require_some(answers)
        batcher.finish([client for client, _ in batch])
        deliver(list(zip(requests, answers, strict=True)))
        self.metrics.add(requests)
        return completed

    def _take(self, requests: list[Request]) -> Answered:
        """Stores the unrolls of one request.

        Those of versions that there are not yet are dropped: a learner that is lost has trained them.
        """
        (request,) = requests
        steps, states = self._codec.nests(request.records)
        env, versions = steps[1], steps[3]
        if problem := self._codec.problem(steps, states):
            return [BadStep(problem)], []
        if request.applied is not None and request.group.is_restart and not env.done[0].all():
            return [BadStep("The first step of a new actor must be a reset: set done.")], []
        env_ids, holder, acted = request.group.env_ids, request.group.holder, int(versions[-1].max())
        completed: list[int] = []
        if versions.max() > self._weights.version:
            self._batches.drop(len(env_ids))
            acted = -1
        else:
            completed = self._batches.insert(env_ids, steps, states)
        with self._lock:
            self.agent_steps += env.truncated[:-1].size - int(env.truncated[:-1].sum())
            has = acted if request.applied is not None else max(acted, self._sent.get(holder, -1))
            newer = self._weights.newer_than(has)
            if len(self._sent) >= _MOST_PROCESSES:
                self._sent.clear()  # Some groups get weights twice.
            self._sent[holder] = has if newer is None else newer.version
        answer = b"" if newer is None else newer.SerializeToString()
        self.metrics.carried(len(request.records), len(answer))
        return [answer], completed
