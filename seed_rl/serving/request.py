"""Requests and answers in the batcher: plain data, free of gRPC and threads. No TensorFlow."""

from typing import NamedTuple, TypeAlias

from seed_rl.serving.slots import Lease


class Request(NamedTuple):
    """One step of an environment group. A stream has one at a time, so its lease identifies the sender.

    `records` has as many bytes as the message Step must have; their contents are not checked yet.
    `arrived` is the arrival time, in seconds of the monotonic clock.
    """

    lease: Lease
    records: bytes | memoryview
    arrived: float


class BadStep(NamedTuple):
    """The answer to a step that must not reach the learner; the answer to others is the bytes of actions."""

    sentence: str


Answer: TypeAlias = bytes | BadStep
