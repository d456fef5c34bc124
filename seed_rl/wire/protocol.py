"""Shared by both ends of a connection: version, gRPC options, specs as messages, and their comparison."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from seed_rl.types import ArraySpec, EnvironmentSpec, flatten_spec
from seed_rl.wire.codec import RecordSize, StepCodec
from seed_rl.wire.generated import inference_pb2 as pb

PROTOCOL_VERSION = 4

_INFERENCE = pb.DESCRIPTOR.services_by_name["Inference"]
SERVICE = _INFERENCE.full_name
METHOD = _INFERENCE.methods[0].name

# Trailing metadata with which a learner ends a stream: other servers' statuses, such as a proxy's, lack it.
LEARNERS_MARK = ("seed_rl-learner", "1")

# An episode has at most 32 figures of its environment's own, each of at most 77 bytes with a name in ASCII.
MOST_EPISODE_BYTES = 2_560

# Room in a message besides the records and the episodes: field tags.
_MESSAGE_OVERHEAD_BYTES = 64 * 1024

# A peer that answers no ping is gone: 20 s without traffic, then 10 s for the answer. Both time-outs are set,
# because gRPC waits for the longer one, and the one for pings is a minute by default.
_KEEPALIVE_OPTIONS = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 2_000),
]
# Of actors at a gateway: the learner serves them once they notice that it is gone.
GATEWAY_OPTIONS = [
    ("grpc.keepalive_time_ms", 3_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.ping_timeout_ms", 3_000),
]


@dataclasses.dataclass(frozen=True)
class EnvironmentDescription:
    """Environments: the suite's name, its settings as JSON values, the specs, and the spaces as JSON."""

    name: str
    settings: Mapping[str, Any]
    spec: EnvironmentSpec
    spaces: str = ""

    def describe_into(self, welcome: pb.Welcome) -> None:
        """Fills the fields of a Welcome that describe the environments."""
        welcome.suite = self.name
        for key, value in self.settings.items():
            welcome.settings[key] = json.dumps(value)
        welcome.observation.extend(
            spec_message(name, leaf) for name, leaf in flatten_spec(self.spec.observation)
        )
        welcome.action.CopyFrom(spec_message("", self.spec.action))
        welcome.num_players = self.spec.num_players
        welcome.spaces = self.spaces


def channel_options(max_bytes: int) -> list[tuple[str, int]]:
    """The gRPC options that both ends use: keepalive, and the largest message to receive (-1: any size).

    Proxies that the environment variables name are for the web: a run's processes call one another directly.
    """
    return [
        *_KEEPALIVE_OPTIONS,
        ("grpc.enable_http_proxy", 0),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", max_bytes),
    ]


def max_message_bytes(record_bytes: int, num_envs: int) -> int:
    """The size of the largest message with a step of `num_envs` environments."""
    return (record_bytes + MOST_EPISODE_BYTES) * num_envs + _MESSAGE_OVERHEAD_BYTES


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


def sizes_of(welcome: pb.Welcome) -> EnvironmentSpec:
    """A spec whose records and actions have the sizes of the learner's; without names."""
    leaves = {f"{i:04}": _spec(leaf) for i, leaf in enumerate(welcome.observation)}
    return EnvironmentSpec(leaves, _spec(welcome.action), num_players=max(1, welcome.num_players))


def record_size(welcome: pb.Welcome) -> RecordSize:
    """Size of a request's part for each environment: a step, or an unroll."""
    if welcome.HasField("policy"):
        return RecordSize(welcome.policy.unroll_bytes, welcome.policy.unroll_length + 1, "An unroll")
    return StepCodec(sizes_of(welcome)).size


def _spec(message: pb.ArraySpec) -> ArraySpec:
    bounds = (tuple(message.minimum) or None, tuple(message.maximum) or None)
    return ArraySpec(tuple(message.shape), message.dtype, *bounds, tuple(message.bits) or None)


def differences(spec: EnvironmentSpec, welcome: pb.Welcome) -> list[str]:
    """The differences between the environments of this end and those of a Welcome.

    Returns:
      Phrases such as `observation: uint8 [4] here, uint8 [5] there`; empty if nothing differs.
    """
    mine = pb.Welcome()
    EnvironmentDescription("", {}, spec).describe_into(mine)
    ours, others = _texts(mine), _texts(welcome)
    return [
        f"{name}: {ours.get(name, 'none')} here, {others.get(name, 'none')} there"
        for name in sorted(set(ours) | set(others))
        if ours.get(name) != others.get(name)
    ]


def _texts(welcome: pb.Welcome) -> dict[str, str]:
    observation = {f"observation {leaf.name}".strip(): str(_spec(leaf)) for leaf in welcome.observation}
    return observation | {"action": str(_spec(welcome.action)), "players": str(max(1, welcome.num_players))}
