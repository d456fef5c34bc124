"""Checks that an algorithm follows the protocol, before a mistake costs an hour; errors are one sentence."""

from typing import Any

import tensorflow as tf

from seed_rl.algorithms import AlgorithmError
from seed_rl.algorithms.base import Algorithm, Losses
from seed_rl.algorithms.policy import Policy
from seed_rl.experience.base import ExperienceConfig, UnrollConfig
from seed_rl.types import Sample


def check_algorithm(found: Any) -> Algorithm:
    """Returns the object itself if it has everything that `Algorithm` requires.

    Raises:
      AlgorithmError: it does not.
    """
    name = type(found).__name__
    if not isinstance(found, Algorithm):
        raise AlgorithmError(f"{name} is not a seed_rl.algorithms.base.Algorithm; make it a subclass.")
    wanted = (("policy", Policy), ("unroll", UnrollConfig), ("experience", ExperienceConfig))
    for attribute, kind in wanted:
        value = getattr(found, attribute, None)
        if not isinstance(value, kind):
            raise AlgorithmError(
                f"{name}.{attribute} must be a {kind.__module__}.{kind.__name__}, not {value!r}."
            )
    if not found.objectives:
        raise AlgorithmError(f"{name}.objectives must name at least one objective.")
    return found


def check_losses(algorithm: Algorithm, losses: Losses, sample: Sample) -> None:
    """Checks what `Algorithm.losses` returned for a batch; may be traced.

    Raises:
      AlgorithmError: a shape is wrong, or the names do not match the objectives.
    """
    method = f"{type(algorithm).__name__}.losses"
    names, found = sorted(algorithm.objectives), sorted(losses.by_objective)
    if names != found:
        raise AlgorithmError(
            f"{method} must return a loss for each objective ({', '.join(names)}), not for "
            f"{', '.join(found) or 'none'}."
        )
    tensors: dict[str, tf.Tensor] = dict(losses.by_objective)
    if losses.priority is not None:
        tensors["priority"] = losses.priority
    for name, tensor in tensors.items():
        if not tensor.shape.is_compatible_with(sample.weight.shape):
            raise AlgorithmError(
                f"{method} must return '{name}' of shape [B] = {list(sample.weight.shape)}, one number "
                f"per unroll, not of shape {list(tensor.shape)}."
            )
