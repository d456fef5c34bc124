"""Brings the weights from training to the copies of the policy that act: whole versions only."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf


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
        """Sets what the next batch is acted on with; nobody waits."""
        with self._changed:
            self._pending = version, tensors

    @tf.function(autograph=False)
    def _assign(self, tensors: list[tf.Tensor]) -> None:
        with tf.device(self.device):
            for variable, tensor in zip(self._variables, tensors, strict=True):
                variable.assign(tensor)


class Publisher:
    """Hands each version of the weights, or every few, to all copies of the policy."""

    def __init__(self, source: tf.Module, copies: Sequence[PolicyCopy], every: int = 1):
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
