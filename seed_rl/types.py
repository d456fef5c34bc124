"""Types that every package shares: array specs, environment outputs, agent outputs, unrolls.

Time alignment, defined once, here. In every trajectory, at agent step `t`:

* `prev_action[t]` is the action that produced `env[t]`;
* `agent[t]` is the agent's response to `env[t]`;
* so `agent.action[:-1]` pairs with `env.reward[1:]`, and the last step only bootstraps. A rollout is trained
  on before that step is acted on, so `agent` is zeros there.

Episode ends, also defined once, here:

* `env.done[t]`: `env.observation[t]` is the first of a new episode. If the previous episode terminated,
  `env.reward[t]` is its last reward, and nothing is bootstrapped across the boundary.
* `env.truncated[t]`: `env.observation[t]` is the last of an episode that a time limit cut short. Its
  value bootstraps the steps before it. The action chosen for it is never executed: the next step is the
  reset (`done[t + 1]`, reward 0), so the transition `t -> t + 1` is not experience and losses leave it out.
* `done` and `truncated` are never both set at a step of the agent's.

Players. An environment of P players (`EnvironmentSpec.num_players`) has P slots, which are environments with
consecutive ids wherever environments are counted: `g P` to `g P + P - 1` of a group are the players of its
game `g`. All of the above holds for each player's own steps, with these additions:

* A record with `done` and `truncated` both set is idle: the player is not to move, or is out. It is no step:
  nothing acts on it, stores it or counts it, its reward is 0, and the action in answer to it is ignored. So
  `prev_action[t]` is the player's own previous action, however many records of others lie between.
* A step's reward is the sum of what the player got since its previous step in the episode. What it gets
  before its first action of an episode counts after that action, as no action of its own earned it.
* If an episode terminates, what a player got since its previous step comes with the player's first step of a
  later episode (`done`), which may be records later. If it is truncated, each player that has acted and is
  not out shows its last observation at once, with `truncated`; the others are idle.
* In a trajectory, a step may have both set: with it another policy takes over for the player (self-play). It
  ends its episode like any `done`, and the transition to the next step is not experience.

Counting, defined once as well: an agent step is an action that an environment executes, whether or not the
environment then fails. So a step with `truncated` set is in the trajectory, but does not count. The agent
steps of a run are those of the environments that train, and of players those of the learning side;
environment frames are agent steps times repeats.

Sizes. `E`: environments in a message, `B`: batch, `T`: unroll length, `S = burn_in + T + 1`: stored steps.
This module imports NumPy only.
"""

import dataclasses
import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np

# The absolute value of every observation and reward must be less. Running statistics sum the squares of a
# training batch, which would overflow float32.
LARGEST_INPUT = 1e15

# A nest is an array, or a dict of nests by name. Dicts are always walked in sorted key order.
Nest: TypeAlias = Any

# The key of an observation's action mask: bool, whether each discrete action is allowed.
ACTION_MASK = "action_mask"

# Specs with more elements than this print only the lowest and the highest of their bounds.
_MOST_BOUNDS_SHOWN = 8


@dataclasses.dataclass(frozen=True)
class ArraySpec:
    """Shape, dtype and (for actions) bounds of one array, without batch or time dimensions.

    Actions use one spec for all three kinds of space:
    integer dtype and shape `()` is Discrete(maximum + 1); integer dtype and shape `(k,)` is
    MultiDiscrete(maximum + 1); a floating dtype is a Box. Integer actions start at 0.

    Attributes:
      shape: sizes of the dimensions.
      dtype: NumPy name of the dtype, such as `uint8` or `float32`.
      minimum: lowest values, inclusive, flattened in C order, -inf for elements that have none; None if no
        element has any bound.
      maximum: highest values, likewise.
      bits: shape of the bools that the bytes hold, if they are packed (see `packed`); else None.
    """

    shape: tuple[int, ...]
    dtype: str
    minimum: tuple[float, ...] | None = None
    maximum: tuple[float, ...] | None = None
    bits: tuple[int, ...] | None = None

    @classmethod
    def packed(cls, shape: tuple[int, ...]) -> "ArraySpec":
        """The spec of bools `[*shape]`, flattened in C order, eight to a byte, the first in the highest bit.

        Unused bits of the last byte are 0, as in `numpy.packbits`.
        """
        return cls(((math.prod(shape) + 7) // 8,), "uint8", bits=shape)

    @property
    def unpacked(self) -> "ArraySpec":
        """The spec as the environment and networks see it: of bools if they are packed, else the same."""
        return self if self.bits is None else ArraySpec(self.bits, "bool")

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes of one array."""
        return self.size * np.dtype(self.dtype).itemsize

    @property
    def is_discrete(self) -> bool:
        """True for integer dtypes: Discrete and MultiDiscrete actions."""
        return np.issubdtype(np.dtype(self.dtype), np.integer)

    @property
    def num_values(self) -> tuple[int, ...]:
        """For integer actions: how many values each element takes (one entry for Discrete).

        Raises:
          ValueError: the spec is not a bounded integer spec.
        """
        if not self.is_discrete or self.maximum is None:
            raise ValueError(f"Only bounded integer specs have a number of values; {self} has none.")
        return tuple(int(m) + 1 for m in self.maximum)

    def zeros(self, *leading: int) -> np.ndarray:
        """An array of zeros, `[*leading, *shape]`."""
        return np.zeros((*leading, *self.shape), self.dtype)

    def __str__(self) -> str:
        bounds = ""
        if self.minimum is not None and self.maximum is not None:
            pairs = list(zip(self.minimum, self.maximum, strict=True))
            if len(set(pairs)) == 1 or len(pairs) > _MOST_BOUNDS_SHOWN:
                pairs = [(min(self.minimum), max(self.maximum))]
            bounds = "".join(f", {low:g} to {high:g}" for low, high in pairs)
        packed = "" if self.bits is None else f" of packed bool{list(self.bits)}"
        return f"{self.dtype}{list(self.shape)}{packed}{bounds}"


class EnvironmentSpec(NamedTuple):
    """Spec of an environment, from which a learner builds networks and buffers.

    `observation` is a nest of ArraySpec (one spec, or a dict of specs by name); `action` is one ArraySpec;
    `num_action_repeats` is the number of environment frames in an agent step; `num_players` is P, see
    "Players" above.
    """

    observation: Nest
    action: ArraySpec
    num_action_repeats: int = 1
    num_players: int = 1


class EnvOutput(NamedTuple):
    """One step of environments; see "Episode ends" above. Leading dimensions `[E]`, `[B]` or `[S, B]`.

    reward: float32, raw (never clipped). done: bool. truncated: bool. observation: nest of arrays.
    """

    reward: Any
    done: Any
    truncated: Any
    observation: Nest


class AgentOutput(NamedTuple):
    """An agent's response to an EnvOutput. Same leading dimensions.

    action: matches the action spec. info: dict of arrays that the agent's own loss needs later, such as
    the behaviour policy's parameters (V-trace) or the Q-values (R2D2).
    """

    action: Any
    info: dict[str, Any]


class Unroll(NamedTuple):
    """A stored segment of one environment's experience: arrays `[S, ...]`, see "Time alignment" above.

    `initial_state` (nest of `[...]`) is the recurrent state just before the FIRST step. `policy_version`
    (int64 `[S]`) is how many updates the weights had received that acted on each step; -1 where none have
    acted yet, as on the last step of a rollout. `env_id` is the environment, and `stream` counts the
    interruptions of its steps so far. `first_step` counts from the last interruption: an unroll whose first
    step is T later than that of another with the same environment and stream shares `burn_in + 1` steps with
    it.
    """

    prev_action: Any
    env: EnvOutput
    agent: AgentOutput
    initial_state: Nest
    policy_version: Any
    env_id: int = 0
    first_step: int = 0
    stream: int = 0


class Sample(NamedTuple):
    """A training batch: unrolls stacked time-major, arrays `[S, B, ...]`; `initial_state` nest of `[B, ...]`.

    `weight` `[B]` float32 holds importance weights (ones where the experience is a queue, and 0 for what
    is not to be trained on).
    """

    prev_action: Any
    env: EnvOutput
    agent: AgentOutput
    initial_state: Nest
    weight: Any


def flatten_spec(spec: Nest, prefix: str = "") -> list[tuple[str, ArraySpec]]:
    """The (name, ArraySpec) leaves of a nest of specs, in sorted key order; a bare spec is named ''."""
    if isinstance(spec, ArraySpec):
        return [(prefix, spec)]
    leaves = []
    for key in sorted(spec):
        leaves += flatten_spec(spec[key], f"{prefix}/{key}" if prefix else key)
    return leaves


def flatten_like(spec: Nest, nest: Nest) -> list[Any]:
    """The leaves of `nest`, in the order of `flatten_spec(spec)`."""
    if isinstance(spec, ArraySpec):
        return [nest]
    return [leaf for key in sorted(spec) for leaf in flatten_like(spec[key], nest[key])]


def pack_like(spec: Nest, leaves: list[Any]) -> Nest:
    """The inverse of `flatten_like`."""
    iterator = iter(leaves)

    def pack(node: Nest) -> Nest:
        if isinstance(node, ArraySpec):
            return next(iterator)
        return {key: pack(node[key]) for key in sorted(node)}

    return pack(spec)
