"""Norms of each layer's gradients, parameters and steps.

Stooke & Abbeel, "Accelerated Methods for Deep Reinforcement Learning" (2018), appendix C, compare them over
batch sizes: larger batches have smaller gradients, and take larger but fewer steps.
"""

import collections
from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class Layers:
    """The layers of an algorithm. They are named by the attributes on the shortest way to them."""

    def __init__(self, root: tf.Module):
        self._paths: dict[int, tuple[str, ...]] = {id(root): ()}
        found: collections.deque[Any] = collections.deque([root])
        while found:
            parent = found.popleft()
            path = self._paths[id(parent)]
            for name, child in tf.train.TrackableView.children(parent).items():
                if id(child) not in self._paths:
                    self._paths[id(child)] = (*path, name.strip("_"))
                    found.append(child)
        self._root = root  # While it lives, no other object has its ids.

    def name(self, variable: Any) -> str:
        """The layer of a variable, such as `network/trunk/core/inputs`; a variable in no layer is its own."""
        path = self._paths.get(id(variable)) or (variable.name.partition(":")[0],)
        return "/".join(path[:-1] or path)

    def norms(
        self, variables: Sequence[Any], gradients: Sequence[Any], before: Sequence[tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """L2 norms, float32 scalars `gradient_norm/LAYER`, `parameter_norm/LAYER` and `step_norm/LAYER`.

        Args:
          variables: after an update, while it is traced.
          gradients: of the whole batch, before clipping; None where no loss depends on the variable.
          before: their `values` before the update.
        """
        members: dict[str, list[tf.Tensor]] = collections.defaultdict(list)
        changes = zip(variables, gradients, before, values(variables), strict=True)
        for variable, gradient, old, new in changes:
            layer = self.name(variable)
            gradient = tf.zeros_like(old) if gradient is None else tf.convert_to_tensor(gradient)
            members[f"gradient_norm/{layer}"].append(gradient)
            members[f"parameter_norm/{layer}"].append(new)
            members[f"step_norm/{layer}"].append(new - old)
        return {
            name: tf.linalg.global_norm([tf.cast(x, tf.float32) for x in found])
            for name, found in members.items()
        }


def values(variables: Sequence[Any]) -> list[tf.Tensor]:
    """The values of variables now; later updates do not change them."""
    return [tf.identity(tf.convert_to_tensor(variable)) for variable in variables]
