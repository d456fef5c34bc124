"""Lists environments and agents: which pairs can be trained here and now, and what installs the others.

Examples:
  seed_rl list
  seed_rl list --game=Pendulum-v1

An environment is looked at with its default game; --game is for gym, whose games differ in their actions.
"""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass

from seed_rl.algorithms import registry as algorithms
from seed_rl.algorithms.options import Kind, kind_of
from seed_rl.environments import registry as environments
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.flagfile import configs_directory, find_preset
from seed_rl.launch.probe import found, probe
from seed_rl.messages import how_to_install, in_columns, one_line
from seed_rl.options import Options, option

_LEGEND = (
    "preset: settings for a small machine, in configs/small/; computed: from the environment's spaces.",
    "Train with: seed_rl train ENVIRONMENT AGENT",
)


@dataclass(frozen=True)
class ListConfig(Options):
    """Settings of list."""

    game: str = option("CartPole-v1", "The Gymnasium id that gym's row is about.")


def main(argv: list[str]) -> int:
    """Prints the table; returns the exit code."""
    config, _ = parse_options(argv, __doc__ or "", ListConfig)
    agents = algorithms.choices()
    rows, notes = [["", *agents]], []
    for name in environments.names():
        game = config.game if name == "gym" else None
        kind, problem = _look(name, game)
        rows.append([name, *(_cell(name, agent, game, kind) for agent in agents)])
        if problem:
            notes.append(f"{name}: {problem}")
        elif kind:
            notes += _refusals(name, kind)
    if importlib.util.find_spec("tensorflow") is None:
        notes.append(f"Training needs TensorFlow, which is not installed; {how_to_install('learner')}.")
    for line in (*in_columns(rows), "", *_LEGEND, *([""] if notes else []), *notes):
        print(line)
    return 0


def _look(name: str, game: str | None) -> tuple[Kind | None, str]:
    """Properties that an environment's defaults depend on; or None, and the reason that it cannot be made."""
    try:
        suite = environments.suite(name)
        config = suite.config_class.of(**({"game": game} if game else {}))
        return kind_of(found(*probe([(name, config.to_dict())])).spec), ""
    except (ValueError, ImportError) as error:
        return None, one_line(error)


def _cell(name: str, agent: str, game: str | None, kind: Kind | None) -> str:
    if kind is None:
        return "missing"
    if algorithms.config_class(algorithms.base(agent)).refusal(kind.action):
        return "no"
    return "preset" if find_preset(configs_directory(), name, agent, game) else "computed"


def _refusals(name: str, kind: Kind) -> Iterator[str]:
    """Sentences on the agents that cannot act in an environment, with the reason."""
    by_need: dict[str, list[str]] = {}
    for agent in algorithms.names():
        if needed := algorithms.config_class(agent).refusal(kind.action):
            by_need.setdefault(needed, []).append(agent)
    for needed, agents in by_need.items():
        yield f"{name}: its actions are {kind.action}, and {', '.join(agents)} need {needed}."
