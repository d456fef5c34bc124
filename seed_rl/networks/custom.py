"""Custom networks in place of the torsos: `--network=package.module:Class`.

The class is a `keras.layers.Layer`. It is constructed with the environment's observation spec (a nest of
`ArraySpec`) and called with observations, a nest of `[N, ...]`. Bools have already been unpacked, and images
of uint8 or bool stacked over `--frame_stack` frames. It returns features `[N, F]`, float32 or, with
`--precision=bfloat16`, bfloat16. The last action and reward, the LSTM and the agent's heads follow it as
usual.
"""

import keras

from seed_rl.loading import entry_points, load_named

_ENTRY_POINTS = "seed_rl.networks"


def load_network(name: str) -> type[keras.layers.Layer]:
    """The class that `--network` names: `module:Class`, or an entry point in the group `seed_rl.networks`.

    Raises:
      ValueError: there is none, or it is not a Keras layer; the message is one sentence.
    """
    location = name
    if ":" not in name:
        installed = entry_points(_ENTRY_POINTS)
        if name not in installed:
            known = f" ({', '.join(sorted(installed))})" if installed else ""
            raise ValueError(
                f"--network={name} is not valid; write module:Class, or the name of an installed "
                f"network{known}."
            )
        location = installed[name]
    found = load_named("network", name, location)
    if not (isinstance(found, type) and issubclass(found, keras.layers.Layer)):
        raise ValueError(
            f"--network={name} is not a subclass of keras.layers.Layer; name one as module:Class."
        )
    return found
