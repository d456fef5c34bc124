"""Defaults for a small machine, computed from an environment's spaces where there is no preset.

The values are ours, and between those of the presets that are nearest.
"""

import math
from typing import Any

from seed_rl.algorithms import registry as algorithms
from seed_rl.algorithms.options import Kind
from seed_rl.experience.experience_config import RolloutsConfig
from seed_rl.flags.definitions import option_names
from seed_rl.training.training_config import TrainerConfig

# Replay of images takes at most about this many bytes, before compression.
_MOST_REPLAY_BYTES = 10**9
_ENVS_PER_ACTOR = {"images": 16, "boards": 16, "vectors": 8}
# Agent steps of a run without replay, and of one that draws each transition from replay several times.
_AGENT_STEPS = {"images": 2_000_000, "boards": 3_000_000, "vectors": 1_000_000}
_REPLAY_STEPS = {"images": 500_000, "boards": 1_000_000, "vectors": 300_000}

_NETWORK: dict[str, dict[str, Any]] = {
    "images": {"normalize_observations": True},
    "boards": {"torso": "minatar"},
    "vectors": {"normalize_observations": True},
}
_NOT_WITH_NETWORK = {"torso", "normalize_observations", "layer_norm", "torso_units"}


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
    options = algorithms.config_class(algorithms.base(agent))
    has_replay = options.has_replay()
    games = 2 * kind.players if kind.players > 1 else 1  # Up to two groups have whole games.
    settings: dict[str, Any] = {
        "env_batch_size": env_batch_size or games * math.ceil(_ENVS_PER_ACTOR[kind.observation] / games),
        **_NETWORK[kind.observation],
        **({"frame_stack": 4} if kind.stacks else {}),
        **options.small_defaults(kind, agent),
    }
    num_envs = (num_actors or 2) * settings["env_batch_size"]
    if share := settings.pop("batch_share", None):
        settings["batch_size"] = max(1, num_envs // share)
    if has_replay:
        settings["num_eval_envs"] = num_envs // 8
        per_item = kind.nbytes * settings.get("unroll_length", 1)
        size = settings.get("replay_buffer_size", options.defaults()["replay_buffer_size"])
        settings["replay_buffer_size"] = min(size, _MOST_REPLAY_BYTES // per_item)
    known = option_names(options, TrainerConfig) | {"env_batch_size", "num_env_groups"}
    if has_network:
        known -= _NOT_WITH_NETWORK
    steps = (_REPLAY_STEPS if has_replay else _AGENT_STEPS)[kind.observation]
    return {
        "num_actors": num_actors or 2,
        "inference_batch_size": num_envs,
        "total_environment_frames": steps * kind.repeats,
        **{name: value for name, value in settings.items() if name in known},
    }


def fitting_batch_size(agent: str, num_envs: int, batch_size: int, num_learners: int = 1) -> int:
    """The batch size nearest below `batch_size` that an agent can train on; the same for those with a queue.

    Rollouts consist of one unroll of each of `num_envs` training environments, and batches divide them, or
    are the whole. Several learners need a multiple of their number.
    """
    options = algorithms.config_class(agent)
    if options.trains_on_whole_rollouts:
        return num_envs
    if RolloutsConfig not in options.parts().values():
        return batch_size
    sizes = [n for n in range(num_learners, num_envs + 1, num_learners) if num_envs % n == 0]
    return max((n for n in sizes if n <= batch_size), default=min(sizes, default=batch_size))
