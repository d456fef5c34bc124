"""Checks of environments by algorithms: the number of actions, and the number of training environments."""

from seed_rl.types import ArraySpec


def num_actions(spec: ArraySpec, algorithm: str) -> int:
    """The number of actions of an environment with one discrete action.

    Raises:
      ValueError: its actions are others; the message names the algorithm.
    """
    if not spec.is_discrete or spec.shape != ():
        raise ValueError(
            f"{algorithm} needs one discrete action, but the environment's is {spec}; choose another --agent."
        )
    return spec.num_values[0]


def num_training_envs(num_envs: int, num_eval_envs: int) -> int:
    """The number of environments that train; those that evaluate have the highest ids.

    Raises:
      ValueError: all environments only evaluate.
    """
    if num_eval_envs >= num_envs:
        raise ValueError(
            f"--num_eval_envs={num_eval_envs} leaves none of the {num_envs} environments to train "
            "on; set it lower."
        )
    return num_envs - num_eval_envs
