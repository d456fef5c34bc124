"""Shared by both ends of the wire: version, channel options, specs as messages, and their comparison."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

from seed_rl.types import ArraySpec, EnvironmentSpec, flatten_spec
from seed_rl.wire.generated import inference_pb2 as pb

PROTOCOL_VERSION = 2

_INFERENCE = pb.DESCRIPTOR.services_by_name["Inference"]
SERVICE = _INFERENCE.full_name
METHODS = tuple(method.name for method in _INFERENCE.methods)

# Room in a message besides the records: field tags, episodes, a hello with its settings.
_MESSAGE_OVERHEAD_BYTES = 64 * 1024

# A peer that answers no ping is gone: 20 s without traffic, then 10 s for the answer. Both time-outs are set,
# because gRPC waits for the longer one, and the one for pings is a minute by default.
_KEEPALIVE_OPTIONS = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
]


@dataclasses.dataclass(frozen=True)
class EnvironmentDescription:
    """The environments of one end: the suite's name, its settings as JSON values, and the specs."""

    name: str
    settings: Mapping[str, Any]
    spec: EnvironmentSpec

    def describe_into(self, message: Any) -> None:
        """Fills the fields that Description and Hello share."""
        message.environment = self.name
        for key, value in self.settings.items():
            message.settings[key] = json.dumps(value)
        message.observation.extend(
            spec_message(name, leaf) for name, leaf in flatten_spec(self.spec.observation)
        )
        message.action.CopyFrom(spec_message("", self.spec.action))


def channel_options(max_bytes: int) -> list[tuple[str, int]]:
    """The gRPC options that both ends use: keepalive, and the largest message (-1: any size)."""
    return [
        *_KEEPALIVE_OPTIONS,
        ("grpc.max_send_message_length", max_bytes),
        ("grpc.max_receive_message_length", max_bytes),
    ]


def max_message_bytes(record_bytes: int, num_envs: int) -> int:
    """Size of the largest ActRequest for `num_envs` environments in one message."""
    return record_bytes * num_envs + _MESSAGE_OVERHEAD_BYTES


def spec_message(name: str, spec: ArraySpec) -> pb.ArraySpec:
    """An ArraySpec as a message."""
    return pb.ArraySpec(
        name=name,
        dtype=spec.dtype,
        shape=spec.shape,
        minimum=spec.minimum or (),
        maximum=spec.maximum or (),
        bits=spec.bits or (),
    )


def sizes_of(description: pb.Description) -> EnvironmentSpec:
    """A spec whose records and actions have the sizes of the learner's; without names and bounds."""
    leaves = {f"{i:04}": _spec(leaf) for i, leaf in enumerate(description.observation)}
    return EnvironmentSpec(leaves, _spec(description.action))


def _spec(message: pb.ArraySpec) -> ArraySpec:
    return ArraySpec(tuple(message.shape), message.dtype)


def differences(mine: Any, theirs: Any) -> list[str]:
    """The differences between two messages that both describe environments (Description or Hello).

    Returns:
      Phrases such as `setting game: "Pong" here, "Breakout" there`; empty if nothing differs.
    """
    found = []
    if mine.environment != theirs.environment:
        return [f"environment: {mine.environment} here, {theirs.environment} there"]
    for key in sorted(set(mine.settings) | set(theirs.settings)):
        a, b = mine.settings.get(key, "none"), theirs.settings.get(key, "none")
        if a != b:
            found.append(f"setting {key}: {a} here, {b} there")
    ours, others = _leaves(mine.observation), _leaves(theirs.observation)
    for name in sorted(set(ours) | set(others)):
        if ours.get(name) != others.get(name):
            label = f"observation {name}".strip()
            found.append(f"{label}: {ours.get(name, 'none')} here, {others.get(name, 'none')} there")
    if mine.action != theirs.action:
        a, b = _text(mine.action), _text(theirs.action)
        found.append(f"action: {a} here, {b} there")
    return found


def _leaves(specs: Iterable[pb.ArraySpec]) -> dict[str, str]:
    return {spec.name: _text(spec) for spec in specs}


def _text(message: pb.ArraySpec) -> str:
    bounds = (tuple(message.minimum) or None, tuple(message.maximum) or None)
    return str(ArraySpec(tuple(message.shape), message.dtype, *bounds, tuple(message.bits) or None))
