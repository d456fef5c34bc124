"""Lists of Keras layers that `tf.train.Checkpoint` and SavedModel can see."""

from collections.abc import Iterable
from typing import Any


def track_each(owner: Any, layers: Iterable[Any], name: str) -> list[Any]:
    """Makes each layer an attribute of a Keras layer, `name_0`, `name_1`, …, and returns them as a list.

    `tf.train.Checkpoint` silently leaves out the layers of a list (Keras 3).
    """
    layers = list(layers)
    for i, layer in enumerate(layers):
        setattr(owner, f"{name}_{i}", layer)
    return layers
