"""Sums over several learner hosts: gradients, and what the hosts must agree on."""

import ctypes
import os
import signal
import socket
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context  # There is no public name for aborting reductions.

from seed_rl.signals import STOP_SIGNALS

_JOB = "worker"

_SO_ATTACH_FILTER = 26
_SO_ATTACH_REUSEPORT_CBPF = 51

_HEADER = 0xFFF00000  # Offset at which the kernel maps a packet's IP header (SKF_NET_OFF).

# Programs of classic BPF: (code, instructions to skip if a comparison is true, if it is false, operand).
_LOAD_BYTE, _LOAD_WORD, _AND, _EQUALS, _RETURN = 0x30, 0x20, 0x54, 0x15, 0x06

# Socket 1, TensorFlow's, for connections to 127.0.0.0/8 and ::1; else socket 0, ours.
_CHOOSE = (
    (_LOAD_BYTE, 0, 0, _HEADER),  # The version is in the upper half.
    (_AND, 0, 0, 0xF0),
    (_EQUALS, 0, 2, 0x40),  # IPv4, or on to IPv6.
    (_LOAD_BYTE, 0, 0, _HEADER + 16),
    (_EQUALS, 8, 9, 127),
    (_LOAD_WORD, 0, 0, _HEADER + 24),
    (_EQUALS, 0, 7, 0),
    (_LOAD_WORD, 0, 0, _HEADER + 28),
    (_EQUALS, 0, 5, 0),
    (_LOAD_WORD, 0, 0, _HEADER + 32),
    (_EQUALS, 0, 3, 0),
    (_LOAD_WORD, 0, 0, _HEADER + 36),
    (_EQUALS, 0, 1, 1),
    (_RETURN, 0, 0, 1),
    (_RETURN, 0, 0, 0),
)
_DROP = ((_RETURN, 0, 0, 0),)


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


def keep_to_loopback(port: int) -> socket.socket:
    """Keeps other machines away from a port on which TensorFlow will listen, while the socket is open.

    Must come before TensorFlow opens the port, and needs Linux. It also keeps NCCL to the loopback device.

    Its server always listens on the wildcard address, without credentials. Linux lets several
    sockets of one user listen on a port together (SO_REUSEPORT), and a filter choose which of them a
    connection gets. Ours comes first, with a filter that gives TensorFlow's the connections to a loopback
    address, and drops all others itself. So TensorFlow never listens without the filter.

    Raises:
      OSError: the port is taken, or the kernel does not allow it.
    """
    os.environ["TF_GRPC_REUSE_PORT"] = "true"  # Else its server would refuse a port that another socket has.
    os.environ["NCCL_SOCKET_IFNAME"] = "lo"  # NCCL's own connections are not encrypted either.
    held = _wildcard_socket()
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("", port))
        _attach(held, _SO_ATTACH_REUSEPORT_CBPF, _CHOOSE)
        _attach(held, _SO_ATTACH_FILTER, _DROP)
        held.listen(1)
    except OSError:
        held.close()
        raise
    return held


def _wildcard_socket() -> socket.socket:
    """A socket of the kind that gRPC uses to listen: for IPv6 and IPv4, if the machine has IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return socket.socket(socket.AF_INET)
    held = socket.socket(socket.AF_INET6)
    held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return held


def _attach(held: socket.socket, option: int, program: tuple[tuple[int, int, int, int], ...]) -> None:
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
    held.setsockopt(socket.SOL_SOCKET, option, struct.pack("@HP", len(program), ctypes.addressof(code)))
