"""Interface of the learner's loop to all learner hosts: one host alone, or one of several."""

import contextlib
from collections.abc import Iterable
from typing import Any

from seed_rl.devices.hosts import REDUCTION_ERRORS, Agreement, Collective
from seed_rl.hosts.peers import Peers
from seed_rl.metrics.idle_time import TRAINING_FOR_HOSTS, Waits
from seed_rl.metrics.run import RunMetrics, over_hosts
from seed_rl.serving.listener import Listener


class Team:
    """The learner hosts of a run.

    Attributes:
      hosts: all learner hosts; None: there is one.
      listener: what listens on this host's address already, if anything.
      index: of this host.
      count: how many there are.
    """

    def __init__(
        self,
        listener: Listener | None = None,
        peers: Peers | None = None,
        collective: Collective | None = None,
    ):
        """Takes part in a run; without peers, which have all met, and reductions, this host is alone."""
        self.listener = listener
        self.hosts = peers.hosts if peers else None
        self.index, self.count = (self.hosts.index, self.hosts.count) if self.hosts else (0, 1)
        self._peers, self._collective = peers, collective
        self._of_others: dict[int, dict[str, float]] = {}
        self._mine: dict[str, float] = {}
        self._waits = Waits(TRAINING_FOR_HOSTS)
        if peers and collective:
            peers.watch(collective.abort)

    @property
    def is_first(self) -> bool:
        """Whether this host keeps the run directory."""
        return self.index == 0

    def num_envs(self, num_envs: int) -> int:
        """Number of the run's environments that this host serves."""
        return num_envs // self.count

    def share(self, variables: Iterable[Any]) -> None:
        """Gives every host the first one's values of these variables."""
        if self._collective:
            try:
                with self.joining():
                    self._collective.share(variables)
            except REDUCTION_ERRORS as error:
                raise self.explain(error) from error

    def joining(self) -> contextlib.AbstractContextManager[None]:
        """Surrounds what all hosts do together for an update."""
        return self._peers.joining() if self._peers else contextlib.nullcontext()

    def agree(self, has_batch: bool, stop: bool, agent_steps: int, reached: bool = False) -> Agreement:
        """Agreement of all hosts before an update; see `Collective.agree`.

        Raises:
          HostLostError: another host is lost or has failed.
        """
        if not (self._peers and self._collective):
            return Agreement(has_batch and not stop and not reached, stop, agent_steps, reached)
        self._peers.check()
        with self._waits(TRAINING_FOR_HOSTS):
            return self._collective.agree(has_batch, stop, agent_steps, reached)

    def report_with(self, metrics: RunMetrics) -> None:
        """Brings what the other hosts' actors report into the first one's metrics."""

        def hear(index: int, report: dict[str, Any]) -> None:
            metrics.add_news(index, report["run"])
            self._of_others[index] = {name: float(value) for name, value in report["figures"].items()}

        if self._peers:
            if not self.is_first:
                metrics.keep_news()
            self._peers.take_report = lambda: {"run": metrics.take_news(), "figures": self._mine}
            self._peers.on_report = hear

    def finish(self) -> None:
        """Brings the last reports of all hosts to the first one, when all have agreed to stop."""
        if self._peers:
            self._peers.finish()

    def exchange(self, metrics: dict[str, float]) -> dict[str, float]:
        """Metrics of this host's inference and experience; the first host gets those of all hosts."""
        if not self._peers:
            return metrics
        self._mine = metrics = metrics | self._waits.take()
        return over_hosts([metrics, *self._of_others.values()])

    def explain(self, error: BaseException) -> BaseException:
        """Error to raise for one of TensorFlow's reductions: the loss of a host, if there are several."""
        return self._peers.explain(error) if self._peers else error
