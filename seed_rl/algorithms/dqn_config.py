"""Settings of DQN and its descendants. Imports no TensorFlow."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from seed_rl.algorithms.options import Q_LEARNING, AlgorithmOptions, Kind
from seed_rl.experience.experience_config import TransitionReplayConfig
from seed_rl.networks.networks_config import TransitionNetworkConfig
from seed_rl.options import option, part

DISTRIBUTIONS = ("scalar", "categorical", "quantile")
EXPLORATIONS = ("annealed", "ladder", "noisy")

# Options that matter only with one choice of another option: (that option, the choice, what needs it).
_ONLY_WITH = (
    ("distribution", "scalar", ("loss", "value_function_rescaling_epsilon")),
    ("distribution", "categorical", ("num_atoms", "v_min", "v_max")),
    ("distribution", "quantile", ("num_quantiles", "num_target_quantiles", "num_acting_quantiles")),
    ("exploration", "annealed", ("initial_epsilon", "final_epsilon", "epsilon_fraction")),
    ("exploration", "noisy", ("noisy_sigma",)),
)


@dataclasses.dataclass(frozen=True)
class QNetworkConfig(TransitionNetworkConfig):
    """Settings of the network of DQN and its descendants."""

    head_size: int = option(
        0,
        "Units of the hidden layer between the torso and the values, in each stream of a dueling network; 0: "
        "none. Rainbow has 512 there and --torso_units=0.",
        at_least=0,
    )
    dueling: bool = option(
        False, "Whether values and advantages have streams of their own (Wang et al., 2016)."
    )
    start_at_zero: bool = option(
        False,
        "Whether all outputs start at 0 and not at random, which bootstrapping can blow up into an "
        "overestimate that takes long to unlearn.",
    )
    noisy_sigma: float = option(
        0.5,
        "Size of the noise at the start with --exploration=noisy; Fortunato et al. (2018) use 0.5.",
        above=0,
    )


@dataclasses.dataclass(frozen=True)
class DQNConfig(AlgorithmOptions):
    """DQN (Mnih et al., 2015), Rainbow (Hessel et al., 2018), IQN (Dabney et al., 2018) and their like."""

    title: ClassVar[str] = "DQN"
    actions: ClassVar[tuple[str, ...]] = ("discrete",)
    needs: ClassVar[str] = "one discrete action"

    removed: ClassVar[Mapping[str, Any]] = {
        **{"munchausen": False, "munchausen_alpha": 0.9},
        **{"munchausen_temperature": 0.03, "munchausen_clip": -1.0},
    }

    net: QNetworkConfig = part(QNetworkConfig)
    replay: TransitionReplayConfig = part(TransitionReplayConfig)
    n_steps: int = option(
        1, "Transitions before a target bootstraps, in agent steps; Rainbow uses 3.", at_least=1
    )
    discounting: float = option(
        0.99, "Discount (gamma) per agent step; DQN uses 0.99.", at_least=0, at_most=1
    )
    max_abs_reward: float = option(
        0.0,
        "Rewards are clipped to this absolute value in the loss; 0 turns clipping off. DQN uses 1 on Atari.",
        at_least=0,
    )
    double: bool = option(
        False,
        "Whether the network that learns chooses the action that the target network values (van Hasselt et "
        "al., 2016).",
    )
    loss: str = option(
        "huber",
        "Loss of temporal differences: huber (DQN clips the error to 1, which is the same) or squared.",
        choices=("huber", "squared"),
    )
    distribution: str = option(
        "scalar",
        "What is learned of the return of an action: scalar (its mean), categorical (the probabilities of "
        "fixed atoms, C51: Bellemare et al., 2017) or quantile (implicit quantiles, IQN: Dabney et al., "
        "2018).",
        choices=DISTRIBUTIONS,
    )
    num_atoms: int = option(51, "Atoms of --distribution=categorical; C51 has 51.", at_least=2)
    v_min: float = option(-10.0, "Lowest atom, in units of (clipped) reward; C51 uses -10.")
    v_max: float = option(10.0, "Highest atom, in units of (clipped) reward; C51 uses 10.")
    num_quantiles: int = option(
        64, "Fractions that the loss samples for the network that learns; IQN uses 64.", at_least=1
    )
    num_target_quantiles: int = option(
        64, "Fractions that the loss samples for the target network; IQN uses 64.", at_least=1
    )
    num_acting_quantiles: int = option(
        32, "Fractions, evenly spaced, whose mean is an action's value; IQN uses 32.", at_least=1
    )
    value_function_rescaling_epsilon: float = option(
        0.0,
        "Epsilon of h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x, the scale on which values are learned "
        "(Pohlen et al., 2018); 0: they are not rescaled.",
        at_least=0,
    )
    exploration: str = option(
        "annealed",
        "How training environments explore: annealed (one epsilon for all, which falls), ladder (an epsilon "
        "for each, from 0.4 down to 0.4^8, as R2D2) or noisy (noise in the layers after the torso: Fortunato "
        "et al., 2018).",
        choices=EXPLORATIONS,
    )
    initial_epsilon: float = option(
        1.0, "Probability of a random action at the start; DQN uses 1.", at_least=0, at_most=1
    )
    final_epsilon: float = option(
        0.1, "Probability of a random action in the end; DQN uses 0.1.", at_least=0, at_most=1
    )
    epsilon_fraction: float = option(
        0.1,
        "Fraction of the run over which epsilon falls; DQN uses 0.02 of 200 million environment frames.",
        at_least=0,
        at_most=1,
    )
    update_target_every_n_step: int = option(
        1000, "Updates between updates of the target network; DQN uses 10,000.", at_least=1
    )
    target_update_rate: float = option(
        1.0,
        "How far the target network moves towards the one that learns at each of its updates: 1 copies it; "
        "a small rate, with --update_target_every_n_step=1, averages it over time.",
        above=0,
        at_most=1,
    )
    num_eval_envs: int = option(
        0,
        "Number of evaluation environments, which are those with the highest ids: they act with "
        "--eval_epsilon, without noise, and are not trained on.",
        at_least=0,
    )
    eval_epsilon: float = option(
        1e-3,
        "Probability of a random action in evaluation environments; Rainbow uses 1e-3, DQN 0.05.",
        at_least=0,
        at_most=1,
    )

    def validate(self) -> None:
        """Checks constraints between fields."""
        settings, defaults = self.to_dict(), self.defaults()
        for option_name, choice, names in _ONLY_WITH:
            for name in names:
                if settings[option_name] != choice and settings[name] != defaults[name]:
                    raise ValueError(
                        f"--{name}={settings[name]} contradicts --{option_name}={settings[option_name]}: it "
                        f"matters only with {choice}; leave it at its default, {defaults[name]}."
                    )
        if self.v_min >= self.v_max:
            raise ValueError(f"--v_min={self.v_min} must be less than --v_max={self.v_max}; lower it.")

    @classmethod
    def method_name(cls, settings: Mapping[str, Any]) -> str:
        """The name in print; some sets of options have one, whichever preset or flags they came from.

        Rainbow (Hessel et al., 2018) has double, dueling, categorical and noisy networks, prioritized replay
        and n-step targets. ε-Rainbow (Stooke & Abbeel, 2018) explores with an epsilon in place of the noise.
        """
        is_rainbow = settings["double"] and settings["dueling"] and settings["distribution"] == "categorical"
        if is_rainbow and settings["n_steps"] > 1 and settings["priority_exponent"] > 0:
            return "Rainbow" if settings["exploration"] == "noisy" else "ε-Rainbow"
        return cls.title

    @classmethod
    def small_defaults(cls, kind: Kind, choice: str) -> dict[str, Any]:
        """See `AlgorithmOptions`."""
        values: dict[str, Any] = {
            **Q_LEARNING,
            **{"double": True, "n_steps": 3, "batch_size": 64, "num_env_groups": 2},
            **{"replay_buffer_size": 100_000, "replay_buffer_min_size": 2_000},
            **{"replay_ratio": 4.0, "update_target_every_n_step": 250},
        }
        if kind.observation == "images":
            values["max_abs_reward"] = 1.0
        if kind.observation == "vectors":
            values |= {"replay_ratio": 8.0, "update_target_every_n_step": 50}
        if choice == "rainbow":
            return {
                **{**values, "dueling": True, "torso_units": 0, "head_size": 128},
                **{"distribution": "categorical", "num_atoms": 51, "v_min": -10.0, "v_max": 10.0},
                **{"exploration": "noisy", "priority_exponent": 0.5, "importance_sampling_exponent": 0.4},
            }
        return {
            **({"layer_norm": True} if kind.observation == "vectors" else {}),
            **{**values, "priority_exponent": 0.0, "importance_sampling_exponent": 0.0},
            **{"initial_epsilon": 1.0, "final_epsilon": 0.02, "epsilon_fraction": 0.2},
        }
