"""Norms of each layer's gradients, parameters and steps.

Stooke & Abbeel, "Accelerated Methods for Deep Reinforcement Learning" (2018), appendix C, compare them over
batch sizes: larger batches have smaller gradients, and take larger but fewer steps.
"""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf


class Change(NamedTuple):
    """What an update did to a variable.

    layer: the name of its layer.
    gradient: of the whole batch, before clipping, in the variable's shape.
    parameter: the variable's value after the update.
    step: that value minus the one before the update.
    """

    layer: str
    gradient: tf.Tensor
    parameter: tf.Tensor
    step: tf.Tensor


class Layers:
    """The layers of an algorithm. They are named by the attributes on the shortest way to them."""

    def __init__(self, root: tf.Module):
        """Finds everything that is tracked below `root`."""
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

    def changes(
        self, variables: Sequence[Any], gradients: Sequence[Any], before: Sequence[tf.Tensor]
    ) -> list[Change]:
        """What an update did, while it is traced.

        Args:
          variables: those of an objective, updated.
          gradients: of each of them; None where the loss does not depend on it.
          before: their `values` before the update.
        """
        return [
            Change(
                self.name(variable),
                tf.zeros_like(old) if gradient is None else tf.convert_to_tensor(gradient),
                new,
                new - old,
            )
            for variable, gradient, old, new in zip(
                variables, gradients, before, values(variables), strict=True
            )
        ]


def values(variables: Sequence[Any]) -> list[tf.Tensor]:
    """The values of variables now; later updates do not change them."""
    return [tf.identity(tf.convert_to_tensor(variable)) for variable in variables]


def layer_norms(changes: Iterable[Change]) -> Mapping[str, tf.Tensor]:
    """float32 scalars `gradient_norm/LAYER`, `parameter_norm/LAYER` and `step_norm/LAYER`: L2 norms."""
    layers: dict[str, list[Change]] = collections.defaultdict(list)
    for change in changes:
        layers[change.layer].append(change)
    kinds = ("gradient", "parameter", "step")
    return {
        f"{kind}_norm/{layer}": tf.linalg.global_norm(
            [tf.cast(getattr(change, kind), tf.float32) for change in members]
        )
        for kind in kinds
        for layer, members in layers.items()
    }
