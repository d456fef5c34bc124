"""Masks of the actions that an environment allows now (Huang & Ontañón, 2022, arXiv:2006.14171)."""

import tensorflow as tf

from seed_rl.networks.stacking import unpack
from seed_rl.types import ACTION_MASK, ArraySpec, EnvironmentSpec, Nest

# The logit, or the value, of a forbidden action: about the lowest that inference accepts in an answer.
# Float32's softmax makes exactly 0 of it, and it is finite, so that 0 times its logarithm is 0.
FORBIDDEN = -9.9e7


class ActionMask:
    """Finds the mask in an environment's observations, if there is one, and applies it."""

    def __init__(self, env_spec: EnvironmentSpec):
        """Raises ValueError if the observation's `action_mask` does not fit the actions."""
        observation, action = env_spec.observation, env_spec.action
        self._spec = observation.get(ACTION_MASK) if isinstance(observation, dict) else None
        if self._spec is None:
            return
        size = sum(action.num_values) if action.is_discrete else None
        if not isinstance(self._spec, ArraySpec) or self._spec.unpacked.shape != (size,):
            raise ValueError(
                f"The observation '{ACTION_MASK}' is {self._spec}, but the action is {action}; a mask has a "
                "bool for each value of a discrete action. If it is no mask, give it another name."
            )

    def of(self, observation: Nest) -> tf.Tensor | None:
        """Mask of the allowed actions: bool `[..., A]`; None if the environment has no mask.

        The values of several discrete actions follow one another. Where a mask allows nothing, as in the
        zeros that fill unused memory, everything is allowed.
        """
        if self._spec is None:
            return None
        allowed = tf.cast(unpack(observation[ACTION_MASK], self._spec), tf.bool)
        return allowed | ~tf.reduce_any(allowed, -1, keepdims=True)

    def apply(self, values: tf.Tensor, observation: Nest) -> tf.Tensor:
        """Logits or values `[..., A]`, with `FORBIDDEN` in the place of those of forbidden actions."""
        allowed = self.of(observation)
        return values if allowed is None else tf.where(allowed, values, FORBIDDEN)


def without_mask(observation_spec: Nest) -> Nest:
    """The spec of a network's input: all but the mask, unless there is nothing else."""
    if not isinstance(observation_spec, dict):
        return observation_spec
    others = {name: spec for name, spec in observation_spec.items() if name != ACTION_MASK}
    return others or observation_spec
