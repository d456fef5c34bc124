"""Defaults for a small machine, computed from an environment's spaces where there is no preset.

The values are ours, and between those of the presets that are nearest.
"""

from typing import Any, NamedTuple

from seed_rl.algorithms import registry as algorithms
from seed_rl.experience.config import RolloutsConfig
from seed_rl.flags.definitions import option_names
from seed_rl.networks.images import MIN_IMAGE_SIZE, is_image, turned_shape
from seed_rl.training.config import TrainerConfig
from seed_rl.types import ArraySpec, EnvironmentSpec, flatten_spec

# Replay of images takes at most about this many bytes, before compression.
_MOST_REPLAY_BYTES = 10**9
_SMALLEST_BOARD = 3  # As --torso=minatar.


class Kind(NamedTuple):
    """What defaults depend on.

    Attributes:
      observation: "images" (at least 36x36), "boards" (smaller ones) or "vectors".
      action: "discrete" (one), "several discrete" or "continuous".
      stacks: whether --frame_stack can stack the observations.
      repeats: environment frames per agent step.
      nbytes: size of an observation.
    """

    observation: str
    action: str
    stacks: bool
    repeats: int
    nbytes: int

    def __str__(self) -> str:
        return f"{self.observation} and {self.action} actions"


_ENVS_PER_ACTOR = {"images": 16, "boards": 16, "vectors": 8}
# Agent steps of a run without replay, and of one that draws each transition from replay several times.
_AGENT_STEPS = {"images": 2_000_000, "boards": 3_000_000, "vectors": 1_000_000}
_REPLAY_STEPS = {"images": 500_000, "boards": 1_000_000, "vectors": 300_000}

_REPLAY_AGENTS = ("dqn", "r2d2", "rainbow", "sac")

# Easier settings.
BY_ENVIRONMENT: dict[str, dict[str, Any]] = {
    "atari": {"full_action_space": False, "terminal_on_life_loss": True},
    "football": {"game": "academy_empty_goal_close", "rewards": "scoring,checkpoints"},
}
_NETWORK: dict[str, dict[str, Any]] = {
    "images": {"normalize_observations": True},
    "boards": {"torso": "minatar"},
    "vectors": {"normalize_observations": True},
}
_OPTIMIZER = {"adam_epsilon": 1e-5, "learning_rate_schedule": "linear"}
_POLICY_GRADIENT = {
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
_Q_LEARNING = {
    **_OPTIMIZER,
    "learning_rate": 5e-4,
    "clip_norm": 10.0,
    "discounting": 0.99,
    "start_at_zero": True,
}
_DQN = {
    **_Q_LEARNING,
    **{"double": True, "n_steps": 3, "batch_size": 64, "update_target_every_n_step": 250},
    **{"replay_buffer_size": 100_000, "replay_buffer_min_size": 2_000, "replay_ratio": 4.0},
    "num_env_groups": 2,
}
# A batch of agents without replay has the unrolls of 1/batch_share of the environments.
_BY_AGENT: dict[str, dict[str, Any]] = {
    "a2c": {**_POLICY_GRADIENT, "unroll_length": 16, "batch_share": 1},
    "appo": {**_POLICY_GRADIENT, "unroll_length": 20, "batch_share": 2, "num_env_groups": 2},
    "vtrace": {**_POLICY_GRADIENT, "unroll_length": 20, "batch_share": 2, "num_env_groups": 2},
    "ppo": {**_POLICY_GRADIENT, "unroll_length": 64, "batch_share": 4, "epochs": 4},
    "pqn": {
        **_Q_LEARNING,
        **{"unroll_length": 32, "batch_share": 4, "epochs": 2},
        **{"final_epsilon": 0.02, "epsilon_fraction": 0.2},
    },
    "dqn": {
        **_DQN,
        **{"priority_exponent": 0.0, "importance_sampling_exponent": 0.0},
        **{"initial_epsilon": 1.0, "final_epsilon": 0.02, "epsilon_fraction": 0.2},
    },
    "rainbow": {
        **{**_DQN, "dueling": True, "torso_units": 0, "head_size": 128},
        **{"distribution": "categorical", "num_atoms": 51, "v_min": -10.0, "v_max": 10.0},
        **{"exploration": "noisy", "priority_exponent": 0.5, "importance_sampling_exponent": 0.4},
    },
    "r2d2": {
        **_Q_LEARNING,
        **{"lstm_size": 128, "head_size": 128, "initializer": "he_normal"},
        **{"unroll_length": 20, "burn_in": 10, "n_steps": 5, "batch_size": 16},
        **{"replay_buffer_size": 10_000, "replay_buffer_min_size": 250, "replay_ratio": 2.0},
        **{"update_target_every_n_step": 100, "num_env_groups": 2},
    },
    "sac": {
        **{"clip_norm": 0.0, "discounting": 0.99, "batch_size": 128, "replay_ratio": 16.0},
        **{"replay_buffer_size": 100_000, "replay_buffer_min_size": 2_000, "target_entropy_fraction": 0.3},
        **dict.fromkeys(("actor_learning_rate", "critic_learning_rate", "temperature_learning_rate"), 5e-4),
        "num_env_groups": 2,
    },
}
# What differs from these with one kind of observation or action.
_SPECIAL: dict[tuple[str, str], dict[str, Any]] = {
    ("ppo", "images"): {"unroll_length": 32, "epochs": 2},
    ("ppo", "vectors"): {"epochs": 8},
    ("ppo", "continuous"): {"unroll_length": 128, "epochs": 10, "learning_rate": 3e-4, "entropy_cost": 0.0},
    ("dqn", "vectors"): {"layer_norm": True, "replay_ratio": 8.0, "update_target_every_n_step": 50},
    ("dqn", "images"): {"max_abs_reward": 1.0},
    ("pqn", "images"): {"max_abs_reward": 1.0},
    ("rainbow", "vectors"): {"replay_ratio": 8.0, "update_target_every_n_step": 50},
    ("rainbow", "images"): {"max_abs_reward": 1.0},
    ("sac", "continuous"): {"replay_ratio": 64.0, "replay_buffer_size": 300_000},
    ("sac", "images"): {"replay_ratio": 4.0, "max_abs_reward": 1.0, "batch_size": 64},
    **{
        (agent, "continuous"): {"learning_rate": 3e-4, "entropy_cost": 0.001}
        for agent in ("a2c", "appo", "vtrace")
    },
}
_CONTINUOUS_NETWORK = {"initializer": "glorot_uniform", "mlp_activation": "tanh"}
_NOT_WITH_NETWORK = {"torso", "normalize_observations", "layer_norm", "torso_units"}


def kind_of(spec: EnvironmentSpec) -> Kind:
    """What defaults for an environment depend on."""
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
    )


def _is_single_frame(image: ArraySpec) -> bool:
    """Whether frames can be stacked, and seem not to be; planes of bools are one frame, however many."""
    is_frame = image.dtype == "bool" or (image.dtype == "uint8" and turned_shape(image)[2] <= 3)
    return len(image.shape) < 4 and is_frame


def refusal(agent: str, action: str) -> str:
    """What a built-in agent needs if it cannot choose these actions (`Kind.action`); '' if it can."""
    if agent in ("dqn", "pqn", "r2d2", "rainbow") and action != "discrete":
        return "one discrete action"
    if agent == "sac" and action == "several discrete":
        return "continuous actions or one discrete action"
    return ""


def of_agent(
    agent: str,
    kind: Kind,
    num_actors: int | None = None,
    env_batch_size: int | None = None,
    has_network: bool = False,
) -> dict[str, Any]:
    """The values for an agent, one of `algorithms.registry.choices`, in environments of a kind.

    `num_actors` and `env_batch_size` are what the user has given; `has_network` is whether a network of the
    user's own takes the place of torsos.
    """
    has_replay = agent in _REPLAY_AGENTS
    per_actor = 4 if agent == "sac" else _ENVS_PER_ACTOR[kind.observation]
    num_envs = (num_actors or 2) * (env_batch_size or per_actor)
    settings: dict[str, Any] = {
        **_NETWORK[kind.observation],
        **({"frame_stack": 4} if kind.stacks else {}),
        **(_CONTINUOUS_NETWORK if kind.action == "continuous" and agent != "sac" else {}),
        **_BY_AGENT.get(agent, {}),
        **_SPECIAL.get((agent, kind.observation), {}),
        **_SPECIAL.get((agent, kind.action), {}),
    }
    if share := settings.pop("batch_share", None):
        settings["batch_size"] = max(1, num_envs // share)
    if has_replay:
        settings["num_eval_envs"] = num_envs // 8
        per_item = kind.nbytes * settings.get("unroll_length", 1)
        settings["replay_buffer_size"] = min(settings["replay_buffer_size"], _MOST_REPLAY_BYTES // per_item)
    known = option_names(algorithms.config_class(algorithms.base(agent)), TrainerConfig) | {"num_env_groups"}
    if has_network:
        known -= _NOT_WITH_NETWORK
    steps = (_REPLAY_STEPS if has_replay else _AGENT_STEPS)[kind.observation]
    return {
        "num_actors": 2,
        "env_batch_size": per_actor,
        "inference_batch_size": num_envs,
        "total_environment_frames": steps * kind.repeats,
        **{name: value for name, value in settings.items() if name in known},
    }


def fitting_batch_size(agent: str, num_envs: int, batch_size: int, num_learners: int = 1) -> int:
    """The batch size nearest below `batch_size` that an agent can train on; the same for those with a queue.

    Rollouts consist of one unroll of each of `num_envs` training environments, and batches divide them; A2C
    trains on the whole. Several learners need a multiple of their number.
    """
    if agent == "a2c":
        return num_envs
    if RolloutsConfig not in algorithms.config_class(agent).parts().values():
        return batch_size
    sizes = [n for n in range(num_learners, num_envs + 1, num_learners) if num_envs % n == 0]
    return max((n for n in sizes if n <= batch_size), default=min(sizes, default=batch_size))
