"""Sums over several learner hosts: gradients, and what the hosts must agree on."""

import os
import signal
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context  # There is no public name for aborting reductions.

from seed_rl.hosts.loopback import keep_to_loopback
from seed_rl.signals import STOP_SIGNALS

_JOB = "worker"


class Collective:
    """The reductions over several hosts; every host must call each of them equally often.

    Attributes:
      strategy: TensorFlow's, for the training devices of all hosts.
      errors: TensorFlow's errors when a reduction cannot be completed.
    """

    errors = (tf.errors.OpError,)

    def __init__(
        self, addresses: Sequence[str], index: int, num_gpus: int = 0, only_this_machine: bool = True
    ):
        """Connects to the other hosts; must come before anything else that TensorFlow does.

        Needs the main thread, for the signals.

        Args:
          addresses: HOST:PORT of each host, for TensorFlow alone.
          index: of this host.
          num_gpus: how many GPUs of each host train, its first ones; 0: its CPU.
          only_this_machine: whether no other machine can connect to TensorFlow's server, which has no
            credentials; needs Linux.
        """
        self._is_first, self._num_local = index == 0, max(1, num_gpus)
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({_JOB: list(addresses)}),
            task_type=_JOB,
            task_id=index,
            rpc_layer="grpc",
            num_accelerators={"GPU": num_gpus} if num_gpus else {},
        )
        if only_this_machine:
            self._kept = keep_to_loopback(int(addresses[index].rpartition(":")[2]))
        # As `channel_options` does for other channels. TensorFlow has no option for it.
        names = [address.rpartition(":")[0].strip("[]") for address in addresses]
        os.environ["no_grpc_proxy"] = ",".join(names)  # noqa: SIM112 (gRPC's name)
        before = {signum: signal.getsignal(signum) for signum in STOP_SIGNALS}
        options = tf.distribute.experimental.CommunicationOptions
        kind = tf.distribute.experimental.CommunicationImplementation
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy(
            resolver, options(implementation=kind.NCCL if num_gpus else kind.RING)
        )
        for signum, handler in before.items():  # TensorFlow has taken SIGTERM for itself.
            signal.signal(signum, handler)

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """The sum over the hosts of each of the numbers."""
        return [float(x) for x in self._sum(tf.constant([*map(float, numbers)], tf.float64)).numpy()]

    def share(self, variables: Iterable[Any]) -> None:
        """Gives every host the first one's values of these variables."""
        for variable in variables:
            value = tf.convert_to_tensor(variable)
            kind = value.dtype if value.dtype.is_floating else tf.int64
            mine = tf.cast(value, kind)
            total = self._sum(mine if self._is_first else tf.zeros_like(mine))
            variable.assign(tf.cast(total, value.dtype))

    def abort(self, sentence: str) -> None:
        """Ends all reductions, current and future, with an error; may be called from any thread."""
        context.context().abort_collective_ops(tf.errors.UNAVAILABLE, sentence)

    @tf.function(autograph=False)
    def _sum(self, value: tf.Tensor) -> tf.Tensor:
        """The sum over the hosts of a tensor that each of them gives."""

        def add() -> tf.Tensor:
            replica = tf.distribute.get_replica_context()
            is_first = replica.replica_id_in_sync_group % self._num_local == 0
            part = tf.where(is_first, value, tf.zeros_like(value))
            return replica.all_reduce(tf.distribute.ReduceOp.SUM, part)

        return self.strategy.experimental_local_results(self.strategy.run(add))[0]
