"""What goes through the batcher: plain data, which knows neither gRPC nor threads. No TensorFlow."""

from typing import NamedTuple, TypeAlias

from seed_rl.serving.slots import Lease


class Request(NamedTuple):
    """One step of an environment group. A stream has one at a time, so its lease tells whose it is.

    `records`: as many bytes as the message Step must have; what is in them is not checked yet.
    `arrived`: when it came, in seconds of the monotonic clock.
    """

    lease: Lease
    records: bytes | memoryview
    arrived: float


class BadStep(NamedTuple):
    """The answer to a step that must not reach the learner; others are answered with the bytes of actions."""

    sentence: str


Answer: TypeAlias = bytes | BadStep
