"""Algorithms by name. To add one, write NAME.py and NAME_config.py, and list it here. Imports no TensorFlow.

Another package can add one with an entry point in the group `seed_rl.algorithms`. The entry point has the
algorithm's name and refers to an `AlgorithmEntry`: `sarsa = "their_package.entry:SARSA"`.
"""

from typing import TYPE_CHECKING, NamedTuple

from seed_rl.algorithms import AlgorithmError
from seed_rl.algorithms.options import AlgorithmOptions
from seed_rl.environments.base import nearest
from seed_rl.loading import entry_points, load_entry, load_named
from seed_rl.types import ArraySpec, EnvironmentSpec

if TYPE_CHECKING:
    from seed_rl.algorithms.base import Algorithm


class AlgorithmEntry(NamedTuple):
    """Locations of the two parts of an algorithm, each as `module:attribute`.

    config_class: a frozen `AlgorithmOptions` dataclass; its fields become flags. No TensorFlow in its module.
    make: the algorithm's class, or a function, called with (config, env_spec, num_envs).
    """

    config_class: str
    make: str


def _built_in(name: str, class_name: str) -> AlgorithmEntry:
    module = f"seed_rl.algorithms.{name}"
    return AlgorithmEntry(f"{module}_config:{class_name}Config", f"{module}:{class_name}")


_CLASSES = ("A2C", "APPO", "DQN", "PQN", "PPO", "R2D2", "SAC", "VTrace")
_ALGORITHMS = {name.lower(): _built_in(name.lower(), name) for name in _CLASSES}

_ENTRY_POINTS = "seed_rl.algorithms"

_RAINBOW = "rainbow"  # DQN with other options, and with presets and defaults of its own.

# An agent's output for 1,000 observations then takes 260 MB.
_MOST_ACTION_VALUES = 2**16


def names() -> list[str]:
    """The valid names, sorted."""
    return sorted({*_ALGORITHMS, *entry_points(_ENTRY_POINTS)})


def choices() -> list[str]:
    """The words that launchers take as an agent: the valid `names` and, at the end, "rainbow"."""
    return [*names(), _RAINBOW]


def base(choice: str) -> str:
    """The name of the algorithm that one of `choices` trains with; any other word stays as it is."""
    return "dqn" if choice == _RAINBOW else choice


def config_class(name: str) -> type[AlgorithmOptions]:
    """The settings of an algorithm; does not import TensorFlow.

    Raises:
      ValueError: there is no such algorithm (the message lists the valid names), or its settings class is
        not an `AlgorithmOptions`.
    """
    found = load_named("agent", name, _entry(name).config_class)
    if not (isinstance(found, type) and issubclass(found, AlgorithmOptions)):
        raise ValueError(
            f"--agent={name} has settings that are not a seed_rl.algorithms.options.AlgorithmOptions: "
            f"{found!r}."
        )
    return found


def make(name: str, config: AlgorithmOptions, env_spec: EnvironmentSpec, num_envs: int) -> "Algorithm":
    """Makes an algorithm with fresh weights from an instance of `config_class(name)`; imports TensorFlow.

    `num_envs` environments request actions; their ids are 0 to num_envs - 1.

    Raises:
      ValueError: there is no such algorithm, its settings do not fit the environment, or it does not follow
        the protocol.
    """
    from seed_rl.algorithms.base import check_algorithm

    _check_num_values(env_spec.action)
    made = load_named("agent", name, _entry(name).make)
    try:
        return check_algorithm(made(config, env_spec, num_envs))
    except TypeError as error:
        if "abstract" not in str(error):
            raise
        raise AlgorithmError(f"--agent={name} is incomplete: {error}.") from error


def _check_num_values(action: ArraySpec) -> None:
    total = sum(action.num_values) if action.is_discrete else 0
    if total > _MOST_ACTION_VALUES:
        raise ValueError(
            f"The action {action} is too large: agents need an output for each of its {total:,} values, and "
            f"can have {_MOST_ACTION_VALUES:,}; split it into smaller numbers (MultiDiscrete), or use a Box."
        )


def _entry(name: str) -> AlgorithmEntry:
    """Looks up a name; built-in algorithms take precedence over those of other packages."""
    if name in _ALGORITHMS:
        return _ALGORITHMS[name]
    installed = entry_points(_ENTRY_POINTS)
    if name not in installed:
        raise ValueError(_not_valid(name))
    return load_entry("agent", name, installed[name], AlgorithmEntry)


def _not_valid(name: str) -> str:
    if name == _RAINBOW:
        return (
            f"--agent={name} is {base(name)} with other options, which only launchers choose (`seed_rl "
            f"train`); give --agent={base(name)} and its options."
        )
    close = nearest(name, choices(), count=1)
    guess = f"did you mean {close[0]}? Choose" if close else "choose"
    return f"--agent={name} is not valid; {guess} one of: {', '.join(choices())}."
