"""The learner hosts of a run, as the learner calls them. Imports TensorFlow only in `connect`.

`hosts.peers` has the messages between several hosts, and `hosts.reductions` the sums over them.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from seed_rl.hosts.addresses import LearnerHosts
from seed_rl.hosts.peers import Peers
from seed_rl.messages import reason
from seed_rl.metrics.idle_time import TRAINING_FOR_HOSTS, Waits
from seed_rl.metrics.run import RunMetrics, over_hosts
from seed_rl.serving.listener import Listener
from seed_rl.wire.security import Security, is_local

if TYPE_CHECKING:
    from seed_rl.hosts.reductions import Collective

# Waits until its standard input ends; if that takes too long, logs the reason and kills the process.
_WATCH = """
import os, select, signal, sys
pid, seconds, sentence = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
if not select.select([sys.stdin], [], [], seconds)[0]:
    os.write(2, f"seed_rl: error: {sentence}\\n".encode())
    os.kill(pid, signal.SIGKILL)
"""


def check_privacy(hosts: LearnerHosts) -> None:
    """Checks that no other machine can connect to TensorFlow's servers, which have no credentials.

    Raises:
      ValueError: some can; one sentence.
    """
    if far := [address for address in hosts.addresses if not is_local(address)]:
        raise ValueError(
            f"TensorFlow would add up gradients with {', '.join(far)} without encryption or credentials; "
            "give every learner host --insecure_reductions if you trust the network between them."
        )
    if sys.platform != "linux":
        raise ValueError(
            "Only on Linux can other machines be kept away from the port over which TensorFlow adds up "
            "gradients; give every learner host --insecure_reductions if you trust the network."
        )


class Agreement(NamedTuple):
    """Agreement of all hosts before an update.

    Attributes:
      may_update: whether each of them has a batch, and none is to stop or has reached the return.
      stop: whether one of them is to stop.
      agent_steps: since they started, summed over the hosts.
      reached: whether the run has reached `stop_at_return`.
    """

    may_update: bool
    stop: bool
    agent_steps: int
    reached: bool


class Team:
    """The learner hosts of a run: this one alone, or one of several, which it leaves at the end of a context.

    Attributes:
      hosts: all learner hosts; None: there is one.
      listener: what listens on this host's address already, if anything.
      index: of this host.
      count: how many there are.
      strategy: TensorFlow's, for the training devices of all hosts; None: there is one host.
    """

    def __init__(
        self,
        listener: Listener | None = None,
        hosts: LearnerHosts | None = None,
        timeout_secs: float = 0.0,
        identity: Mapping[str, Any] | None = None,
        security: Security = Security(),  # noqa: B008 (immutable)
    ):
        """Takes part in a run; see `Peers` for the arguments, which several hosts need. `meet` comes next."""
        self.listener, self.hosts, self.strategy = listener, hosts, None
        self.index, self.count = (hosts.index, hosts.count) if hosts else (0, 1)
        self._timeout_secs = timeout_secs
        self._peers: Peers | None = None
        self._addresses: list[str] = []  # Of TensorFlow on each host.
        self._collective: Collective | None = None
        self._of_others: dict[int, dict[str, float]] = {}
        self._mine: dict[str, float] = {}
        self._waits = Waits(TRAINING_FOR_HOSTS)
        if hosts:
            assert listener is not None
            self._peers = Peers(hosts, listener, timeout_secs, identity or {}, security)

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Leaves the other hosts, which receive the reason for an exception."""
        if self._peers:
            self._peers.leave(reason(error) if error else "")

    @property
    def is_first(self) -> bool:
        """Whether this host keeps the run directory."""
        return self.index == 0

    def num_envs(self, num_envs: int) -> int:
        """Number of the run's environments that this host serves."""
        return num_envs // self.count

    def meet(self, stopping: Callable[[], bool]) -> bool:
        """Waits until all hosts are there; false if `stopping` returned true first.

        Raises:
          HostsDisagreeError: a host does not come or has other settings.
        """
        if self._peers:
            self._addresses = self._peers.meet(stopping)
        return not self._peers or bool(self._addresses)

    def connect(self, num_gpus: int, only_this_machine: bool) -> None:
        """Connects TensorFlow to the other hosts, which have all met; see `Collective` for the arguments."""
        if self._peers is None or self.hosts is None:
            return
        from seed_rl.hosts.reductions import Collective

        others = ", ".join(self.hosts.name(i) for i in range(self.count) if i != self.index)
        within = f"within {self._timeout_secs:g} s; look at the output of the other learner hosts."
        sentence = f"TensorFlow did not reach {others} {within}"
        with ended_after(self._timeout_secs, sentence, self._peers.stderr):
            self._collective = Collective(self._addresses, self.index, num_gpus, only_this_machine)
        self.strategy = self._collective.strategy
        self._peers.watch(self._collective.abort)

    def share(self, variables: Iterable[Any]) -> None:
        """Gives every host the first one's values of these variables."""
        if self._collective:
            with self.joining():
                self._collective.share(variables)

    def joining(self) -> contextlib.AbstractContextManager[None]:
        """Surrounds what all hosts do together for an update."""
        return self._peers.joining() if self._peers else contextlib.nullcontext()

    def agree(self, has_batch: bool, stop: bool, agent_steps: int, reached: bool = False) -> Agreement:
        """Agreement of all hosts, once each has reported these before an update.

        Args:
          has_batch: whether this host has a batch.
          stop: whether it is to stop.
          agent_steps: its own since it started.
          reached: whether the run has reached `stop_at_return`.

        Raises:
          HostLostError: another host is lost or has failed.
        """
        if self._peers is None or self._collective is None:
            return Agreement(has_batch and not stop and not reached, stop, agent_steps, reached)
        self._peers.check()
        with self._waits(TRAINING_FOR_HOSTS):
            sums = self._collective.sum([not has_batch, stop, agent_steps, reached])
        without, stopping, steps, reaching = sums
        may_update = without + stopping + reaching == 0
        return Agreement(bool(may_update), bool(stopping), round(steps), bool(reaching))

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

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """Turns an error of a reduction into HostLostError, which names the host that is lost."""
        try:
            yield
        except Exception as error:
            if self._peers and self._collective and isinstance(error, self._collective.errors):
                raise self._peers.explain(error) from error
            raise


@contextlib.contextmanager
def ended_after(seconds: float, sentence: str, stderr: int) -> Iterator[None]:
    """Kills this process if the calls inside take longer, even if they block all Python threads.

    The sentence is written to the file descriptor `stderr` then.
    """
    command = [sys.executable, "-c", _WATCH, str(os.getpid()), str(seconds), sentence]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=stderr) as watch:
        assert watch.stdin is not None
        try:
            yield
        finally:
            watch.stdin.close()
