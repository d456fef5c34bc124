"""Options of algorithms, with all else that the project has to know of one. Imports no TensorFlow."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from seed_rl.networks.images import MIN_IMAGE_SIZE, is_image, turned_shape
from seed_rl.options import Options
from seed_rl.types import ArraySpec, EnvironmentSpec, flatten_spec

_SMALLEST_BOARD = 3  # As --torso=minatar.
_OPTIMIZER = {"adam_epsilon": 1e-5, "learning_rate_schedule": "linear"}

# Values for a small machine, which algorithms of a family share. They are ours, and between those of presets.
POLICY_GRADIENT: dict[str, Any] = {
    **_OPTIMIZER,
    "lstm_size": 0,
    "use_last_action_and_reward": False,
    "learning_rate": 5e-4,
    "clip_norm": 0.5,
    "entropy_cost": 0.01,
    "discounting": 0.99,
    "lambda_": 0.95,
    "normalize_rewards": True,
    "max_abs_reward": 10.0,
}
Q_LEARNING: dict[str, Any] = {
    **_OPTIMIZER,
    "learning_rate": 5e-4,
    "clip_norm": 10.0,
    "discounting": 0.99,
    "start_at_zero": True,
}


class Kind(NamedTuple):
    """Properties of an environment that defaults depend on.

    Attributes:
      observation: "images" (at least 36x36), "boards" (smaller ones) or "vectors".
      action: "discrete" (one), "several discrete" or "continuous".
      stacks: whether --frame_stack can stack the observations.
      repeats: environment frames per agent step.
      nbytes: size of an observation.
      players: of a game.
    """

    observation: str
    action: str
    stacks: bool
    repeats: int
    nbytes: int
    players: int = 1

    def __str__(self) -> str:
        return f"{self.observation} and {self.action} actions"


@dataclasses.dataclass(frozen=True)
class AlgorithmOptions(Options):
    """Base class of the options of algorithms, those of other packages included.

    Attributes:
      actions: the kinds of actions that the algorithm can choose (`Kind.action`).
      needs: these actions in words.
      trains_on_whole_rollouts: whether a batch is a rollout of all environments.
      title: the name in plots and tables; empty: the one that the algorithm is registered with.
    """

    actions: ClassVar[tuple[str, ...]] = ("discrete", "several discrete", "continuous")
    needs: ClassVar[str] = "actions of any kind"
    trains_on_whole_rollouts: ClassVar[bool] = False
    title: ClassVar[str] = ""

    @classmethod
    def method_name(cls, settings: Mapping[str, Any]) -> str:
        """The name in plots and tables of a run with these settings; by default `title`."""
        return cls.title

    @classmethod
    def shared_defaults(cls, environment: str) -> dict[str, Any]:
        """The algorithm's own defaults of flags that it shares with others, such as the learner's; by name.

        They apply on the command line of a learner and of a launcher, in the chosen environment.
        """
        return {}

    @classmethod
    def small_defaults(cls, kind: Kind, choice: str) -> dict[str, Any]:
        """Values for a small machine where there is no preset, by name; options of others are left out.

        `choice` is the word of `algorithms.registry.choices` that chose the algorithm. Where `batch_share` is
        N, a batch has the unrolls of 1/N of the environments.
        """
        return {}

    @classmethod
    def refusal(cls, action: str) -> str:
        """The actions that the algorithm needs, in words, if it cannot choose this kind; empty if it can."""
        return "" if action in cls.actions else cls.needs

    @classmethod
    def has_replay(cls) -> bool:
        """Whether the algorithm learns from replay, and so draws each agent step several times."""
        return "replay_ratio" in cls.defaults()


def kind_of(spec: EnvironmentSpec) -> Kind:
    """Properties of an environment that defaults depend on, from its spec."""
    specs = [leaf.unpacked for _, leaf in flatten_spec(spec.observation)]
    images = [leaf for leaf in specs if is_image(leaf)]
    sizes = [min(turned_shape(leaf)[:2]) for leaf in images]
    if any(size >= MIN_IMAGE_SIZE for size in sizes):
        observation = "images"
    else:
        observation = "boards" if sizes and min(sizes) >= _SMALLEST_BOARD else "vectors"
    action = "discrete" if spec.action.shape == () else "several discrete"
    return Kind(
        observation,
        action if spec.action.is_discrete else "continuous",
        observation == "images" and all(map(_is_single_frame, images)),
        spec.num_action_repeats,
        sum(leaf.nbytes for _, leaf in flatten_spec(spec.observation)),
        spec.num_players,
    )


def _is_single_frame(image: ArraySpec) -> bool:
    """Whether frames can be stacked, and seem not to be; planes of bools are one frame, however many."""
    is_frame = image.dtype == "bool" or (image.dtype == "uint8" and turned_shape(image)[2] <= 3)
    return len(image.shape) < 4 and is_frame
