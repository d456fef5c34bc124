"""The range of every number that a peer may send, in one table. No TensorFlow."""

from collections.abc import Mapping

from google.protobuf.message import Message

_INT32 = 2**31 - 1
_LARGEST_FLOAT32 = 3.4028235e38

# At a thousand a second, this takes 30,000 years; the agent steps of an episode take eleven days.
_MOST_COUNTED = 10**15
_MOST_EPISODE_STEPS = 10**9

# By message and field: the lowest and the highest value, both allowed. Some receivers allow less.
RANGES: Mapping[str, Mapping[str, tuple[float, float]]] = {
    # Of protos/inference.proto.
    "Join": {
        "protocol_version": (-_INT32 - 1, _INT32),  # Another one has a sentence of its own.
        "process_id": (0, 2**64 - 1),
        "num_envs": (1, _INT32),
        "num_groups": (1, _INT32),
        "task": (-1, _INT32),
        "redirects": (0, _INT32),
    },
    "Ready": {"applied": (0, _MOST_COUNTED)},
    "Step": {"group": (0, _INT32)},
    "Episode": {
        "env": (0, _INT32),
        "episode_return": (-_LARGEST_FLOAT32, _LARGEST_FLOAT32),
        "agent_steps": (0, _MOST_EPISODE_STEPS),
    },
    # In the records of a step, where that is an unroll.
    "Unroll": {"version": (0, _MOST_COUNTED)},
    # Between learner hosts (`hosts.addresses`).
    "Meet": {"index": (0, _INT32), "joined": (0, _MOST_COUNTED), "waiting": (0, _MOST_COUNTED)},
}


def problem(kind: str, field: str, value: float, highest: float | None = None) -> str:
    """Reason that a value of a message's field must not be used, in one sentence; empty if it may."""
    lowest, most = RANGES[kind][field]
    most = most if highest is None else highest
    if lowest <= value <= most:  # False for NaN.
        return ""
    return f"{kind}.{field} must be {lowest} to {most}, not {value}."


def first_problem(message: Message, **highest: float) -> str:
    """The first `problem` of a message, where fields have these highest values; empty if there is none."""
    kind = message.DESCRIPTOR.name
    found = (problem(kind, field, getattr(message, field), highest.get(field)) for field in RANGES[kind])
    return next(filter(None, found), "")
