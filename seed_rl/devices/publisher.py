"""Brings the weights from training to the copies of the policy that act: whole versions only."""

import contextlib
import hashlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from seed_rl.wire.generated import inference_pb2 as pb


class PolicyCopy:
    """A policy with variables of its own on an inference device. Thread-safe.

    Attributes:
      policy: must have been created on the device.
      device: TensorFlow's name of it.
    """

    def __init__(self, policy: tf.Module, device: str):
        """Starts with the weights that the policy has, as version -1: older than any that is published."""
        self.policy, self.device = policy, device
        self._variables = variables_of(policy)
        self._version = -1
        self._acting = 0
        self._pending: tuple[int, list[tf.Tensor]] | None = None
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def acting(self) -> Iterator[int]:
        """Holds one version of the weights while a batch is acted on; gives that version.

        It is the newest one that has been published. If other threads still act with the one before, this
        one waits for them, never for training.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._pending is None or not self._acting)
            if self._pending is not None:
                self._version, tensors = self._pending
                self._pending = None
                self._assign(tensors)
            self._acting += 1
            version = self._version
        try:
            yield version
        finally:
            with self._changed:
                self._acting -= 1
                self._changed.notify_all()

    def offer(self, version: int, tensors: list[tf.Tensor]) -> None:
        """Sets the weights that act on the next batch, without waiting."""
        with self._changed:
            self._pending = version, tensors

    @tf.function(autograph=False)
    def _assign(self, tensors: list[tf.Tensor]) -> None:
        with tf.device(self.device):
            for variable, tensor in zip(self._variables, tensors, strict=True):
                variable.assign(tensor)


class WeightsReader:
    """The newest version of the weights as a message, for actors that hold the policy. Thread-safe.

    Attributes:
      device: where the publisher leaves the weights.
      network: see `checksum`.
    """

    device = "CPU:0"

    def __init__(self, policy: tf.Module):
        """Starts without weights; `policy` has variables of the same shapes."""
        self.network = checksum(policy)
        self._latest: tuple[int, list[tf.Tensor]] = (-1, [])
        self._message = pb.Weights(version=-1)
        self._lock = threading.Lock()

    def offer(self, version: int, tensors: list[tf.Tensor]) -> None:
        """Sets the newest version."""
        with self._lock:
            self._latest = version, tensors

    @property
    def version(self) -> int:
        """The newest version; -1 if there is none."""
        return self._latest[0]

    def newer_than(self, version: int) -> pb.Weights | None:
        """The newest version, which is read-only; None if it is not newer than another one."""
        with self._lock:
            newest, tensors = self._latest
            if newest <= version:
                return None
            if self._message.version != newest:
                arrays = b"".join(tensor.numpy().tobytes() for tensor in tensors)
                self._message = pb.Weights(version=newest, arrays=arrays)
            return self._message


def checksum(policy: tf.Module) -> str:
    """Equal for policies whose variables have the same shapes and dtypes in the same order."""
    layout = [(tuple(variable.shape), tf.as_dtype(variable.dtype).name) for variable in variables_of(policy)]
    return hashlib.sha256(repr(layout).encode()).hexdigest()[:16]


def assign(variables: Sequence[Any], weights: pb.Weights) -> None:
    """Gives the variables of a policy the weights of another one with the same checksum.

    Raises:
      ValueError: the message has another number of bytes; one sentence.
    """
    dtypes = [np.dtype(tf.as_dtype(variable.dtype).as_numpy_dtype) for variable in variables]
    sizes = [dtype.itemsize * int(np.prod(v.shape)) for v, dtype in zip(variables, dtypes, strict=True)]
    if len(weights.arrays) != sum(sizes):
        raise ValueError(f"The weights must be {sum(sizes)} bytes, not {len(weights.arrays)}.")
    end = 0
    for variable, dtype, size in zip(variables, dtypes, sizes, strict=True):
        begin, end = end, end + size
        variable.assign(np.frombuffer(weights.arrays[begin:end], dtype).reshape(variable.shape))


class Publisher:
    """Hands each version of the weights, or every few, to all copies of the policy."""

    def __init__(self, source: tf.Module, copies: Sequence[PolicyCopy | WeightsReader], every: int = 1):
        """Prepares; `source` is trained, and `every` so many updates its weights are published."""
        self._variables, self._copies, self._every = variables_of(source), tuple(copies), every

    def updated(self, version: int) -> None:
        """Publishes the weights after update `version` if that is due; called by the training thread."""
        if version % self._every == 0:
            self.publish(version)

    def publish(self, version: int) -> None:
        """Publishes the weights as they are, as `version`."""
        if not self._copies:
            return
        for copy, tensors in zip(self._copies, self._read(), strict=True):
            copy.offer(version, tensors)

    @tf.function(autograph=False)
    def _read(self) -> list[list[tf.Tensor]]:
        """The weights on the device of each copy. Later updates do not change them."""
        values = [tf.convert_to_tensor(variable) for variable in self._variables]
        found = []
        for copy in self._copies:
            with tf.device(copy.device):
                found.append([tf.identity(value) for value in values])
        return found


def variables_of(module: Any) -> list[Any]:
    """All variables of a module, TensorFlow's and Keras's, in the order in which checkpoints find them."""
    found = tf.train.TrackableView(module).descendants()
    return [x for x in found if isinstance(x, (tf.Variable, keras.Variable))]
