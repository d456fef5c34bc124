"""Networks of one's own in the place of the torsos: `--network=package.module:Class`.

The class is a `keras.layers.Layer` that is made with the environment's observation spec (a nest of
`ArraySpec`) and called with observations, nest of `[N, ...]`; bools are unpacked before, and images of uint8
or bool stacked over `--frame_stack` frames. It gives features, float32 `[N, F]`. The last action and reward,
the LSTM and the agent's heads come after it, as always.
"""

import importlib
import importlib.metadata
from typing import Any

import keras

_ENTRY_POINTS = "seed_rl.networks"


def load_network(name: str) -> type[keras.layers.Layer]:
    """The class that `--network` names: `module:Class`, or an entry point in the group `seed_rl.networks`.

    Raises:
      ValueError: there is none, or it is no Keras layer; one sentence.
    """
    try:
        found = _load(name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--network={name} cannot be loaded: {error}.") from error
    if not (isinstance(found, type) and issubclass(found, keras.layers.Layer)):
        raise ValueError(f"--network={name} is no class of keras.layers.Layer; name one, as module:Class.")
    return found


def _load(name: str) -> Any:
    module, separator, attribute = name.partition(":")
    if separator:
        return getattr(importlib.import_module(module), attribute)
    installed = {entry.name: entry for entry in importlib.metadata.entry_points(group=_ENTRY_POINTS)}
    if name not in installed:
        known = f" ({', '.join(sorted(installed))})" if installed else ""
        raise ValueError(
            f"--network={name} is not valid; write module:Class, or the name of an installed one{known}."
        )
    return installed[name].load()
