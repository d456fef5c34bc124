"""Inference and training take turns on one thread, so that two runs with the same seed do the same."""

import collections
from collections.abc import Callable
from typing import Any

from seed_rl.experience.base import Batch, Experience
from seed_rl.experience.source import Distribute, to_tensors
from seed_rl.learner.serving import Serving
from seed_rl.serving.request import Request


class Lockstep:
    """Takes the place of `experience.source.Source` in a synchronous run.

    All environments act in one batch, in the order of their ids. Then their unrolls are handed over one by
    one, and every batch that this allows is trained on before anything else happens. So nothing depends on
    the order of arrival, and nothing is faster than the slowest actor.
    """

    def __init__(
        self, serving: Serving, experience: Experience, num_envs: int, distribute: Distribute = to_tensors
    ):
        """Prepares; none of the run's `num_envs` acts before all of them have requested an action."""
        self._serving, self._experience, self._num_envs = serving, experience, num_envs
        self._distribute = distribute
        self._waiting: dict[int, tuple[int, Request]] = {}  # By first environment; they do not overlap.
        self._completed: collections.deque[Any] = collections.deque()  # To be handed over.

    def next(self, timeout_secs: float) -> Batch | None:
        """The next batch; None if the environments have to act first, which they then do in this call."""
        while self._completed and not self._experience.batch_ready():
            self._serving.hand_over([self._completed.popleft()])
        if self._experience.batch_ready():
            found = self._experience.sample()
            return found._replace(sample=self._distribute(found.sample))
        for client, request in self._serving.requests(timeout_secs):
            self._wait_for_others(client, request)
        self._keep(lambda client, request: self._serving.is_connected(client))
        if sum(request.group.num_envs for _, request in self._waiting.values()) == self._num_envs:
            batch = [self._waiting[first] for first in sorted(self._waiting)]
            self._waiting.clear()
            self._completed.extend(self._serving.answer(batch))
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
