"""Resolution of settings: one function decides every value, from layers in this order; a later one wins.

1. `default`: the option's own.
2. `algorithm`: the algorithm's default of an option that it shares with others, in the chosen environment.
3. For a launcher without a flagfile: the `preset` of the environment and agent; where there is none, the
   `environment`'s easier settings, and what suits its observations and actions (`flags.defaults`).
4. The command line: `flag`, or the name of a flagfile; the later one wins.
5. The seed of the run in the directory, if there is one.
6. Sizes that are defaults and do not fit the number of environments: `fitted to N environments`.

A process of a launcher has the settings in the launcher's file (--settings) in place of all but the command
line, and the environment's as they are there. docs/presets.md describes the layers for users.
"""

import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from absl import flags

from seed_rl.algorithms import registry as algorithms
from seed_rl.algorithms.options import kind_of
from seed_rl.environments import registry as environments
from seed_rl.environments.making import Probed
from seed_rl.flags import defaults
from seed_rl.flags.command_line import (
    asks_help,
    define_general,
    end_with_help,
    name_positional,
    parse_flags,
    scan,
    write,
)
from seed_rl.flags.definitions import define_options, option_names
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.flags.flagfile import configs_directory, expand_flagfiles, find_preset, in_parts, without
from seed_rl.flags.settings import ALGORITHM, DEFAULT, FLAG, PRESET, Settings, check_choices
from seed_rl.launch.probe import found, probe
from seed_rl.options import Options

DEFAULT_ENVIRONMENT, DEFAULT_AGENT = "atari", "vtrace"

_CHOICES = {True: "--environment=NAME and --agent=NAME", False: "--environment=NAME"}
_MORE = {key: f"\nWith {flags}, help also prints their flags." for key, flags in _CHOICES.items()}
_POSITIONAL = ("environment", "agent", "num_actors", "env_batch_size")
# Sizes that depend on the number of environments.
_FITTED = ("num_eval_envs", "num_env_groups", "batch_size")
_NOTHING_CHOSEN = (
    f"no environment is named, so this is {DEFAULT_ENVIRONMENT} {DEFAULT_AGENT}: Pong, about 15 minutes on "
    "two idle cores. Name another one, such as catch vtrace, which takes seconds; `seed_rl list` has all."
)


class Launching(NamedTuple):
    """Resolution for a launcher: with presets or computed defaults, and a default directory.

    Attributes:
      tell: called with a sentence on computed defaults, and on each size that was made to fit.
      probed: facts about the chosen environment; None: it is probed if they are needed.
      resumes: whether the run in the directory, if there is one, goes on.
      configs: the directory of presets; None: the project's own.
    """

    tell: Callable[[str], object] = lambda note: None
    probed: Probed | None = None
    resumes: bool = True
    configs: Path | None = None


def resolve(
    argv: Sequence[str],
    description: str,
    options: Sequence[type[Options]],
    *,
    with_agent: bool = True,
    leave_out: Mapping[type[Options], Collection[str]] | None = None,
    elsewhere: Sequence[type[Options]] = (),
    launching: Launching | None = None,
) -> Settings:
    """Resolves a command line, `[environment] [agent] [--flags]`; see the module.

    Args:
      argv: the arguments, the program's name first.
      description: the text that `--help` prints above the flags.
      options: classes whose fields become flags of this command, besides the environment's and the agent's.
      with_agent: whether this command needs an environment and an agent; otherwise it takes no agent.
      leave_out: by class, fields that get no flag.
      elsewhere: classes of other commands. A flagfile may be shared with them: its lines for their flags
        are skipped.
      launching: for a launcher, whose form is `[environment] [agent] [actors] [environments per actor]
        [--flags]`, and whose agent is one of `algorithms.registry.choices`.

    Raises:
      UsageError: bad input; or a launcher's environment cannot be made or acted in, without a preset.
      SystemExit: with code 0, after printing, for `--help`, `--helpfull` and `--explain`.
    """
    args = name_positional(argv[1:], _POSITIONAL if launching else _POSITIONAL[: 2 if with_agent else 1])
    parts = in_parts(args)
    expanded = [arg for _, lines in parts for arg in lines]
    is_bare, helps = expanded == args, asks_help(expanded)
    environment, name, file = _names(expanded, launching, is_bare, needs_both=with_agent and not helps)
    agent = (algorithms.base(name) if launching and name else name) if with_agent else None
    line = _CommandLine(with_agent, launching is not None, option_names(*elsewhere), helps)
    settings = line.define(environment, agent, options, leave_out or {}, file)
    layers = [(path or FLAG, line.parse(lines, is_file=bool(path))) for path, lines in parts]
    given = {flag: value for _, values in layers for flag, value in values.items()}
    if launching and environment and is_bare:
        settings = _small(settings, str(name), line, given, launching)
    settings = _over(settings, layers)
    if helps:
        for flag in settings.values.keys() & set(line.flag_values):
            line.flag_values[flag].value = settings.values[flag]
        more = "" if environment and (agent or not with_agent) else _MORE[with_agent]
        end_with_help(description, line.flag_values, expanded, more)
    if file:
        return settings
    if agent:
        settings = _fitted(settings, given, launching.tell if launching and is_bare else lambda note: None)
    if launching:
        settings = _with_logdir(settings, str(name))
    if not launching or launching.resumes:
        settings = _with_seed_of_run(settings)
    settings = settings.of_environment()
    if launching and line.flag_values["explain"].value:
        write(_explained(line.flag_values, settings))
        raise SystemExit(0)
    return settings


def _names(
    expanded: Sequence[str], launching: Launching | None, is_bare: bool, needs_both: bool
) -> tuple[str | None, str | None, Settings | None]:
    """The environment and the agent of a command line, which exist, and a launcher's settings if it has them.

    A launcher has defaults for both; for the environment, unless flagfiles make the command line complete.
    """
    named = scan(expanded, ("environment", "agent", "settings"))
    environment, name, file = named["environment"], named["agent"], None
    if launching:
        environment, name = environment or (DEFAULT_ENVIRONMENT if is_bare else None), name or DEFAULT_AGENT
    elif named["settings"]:
        file = Settings.read_file(named["settings"])
        environment, name = file.environment or None, file.agent
    check_choices(environment, name)
    for kind, choice, valid in (
        ("environment", environment, environments.names()),
        ("agent", name, algorithms.choices()),
    ):
        if needs_both and choice is None:
            raise UsageError(f"No {kind} is chosen; add --{kind}=NAME ({', '.join(valid)}).")
    return environment, name, file


class _CommandLine:
    """Flags of a command.

    Attributes:
      flag_values: the flags; where they are present, their values are those that were parsed last.
      helps: whether it asks for help, so that mistakes are ignored.
    """

    def __init__(self, with_agent: bool, launches: bool, elsewhere: set[str], helps: bool):
        """Defines general flags. `elsewhere` are flags of other commands."""
        self.flag_values = flags.FlagValues()
        define_general(self.flag_values, with_agent, launches)
        self.helps, self._elsewhere, self._chosen = helps, elsewhere, ""
        self._implied: Mapping[str, Mapping[str, Any]] = {}

    def define(
        self,
        environment: str | None,
        agent: str | None,
        options: Sequence[type[Options]],
        leave_out: Mapping[type[Options], Collection[str]],
        file: Settings | None,
    ) -> Settings:
        """Defines the flags of classes, the environment and the agent; returns the settings without a line.

        Those of a launcher's file take the place of defaults, and its environment's get no flags.

        Raises:
          UsageError: a value in the file is of another type than its option.
        """
        general = set(self.flag_values)
        with usage_errors():
            suite_class = environments.suite(environment).config_class if environment and not file else None
            self._implied = suite_class.implied if suite_class else {}
            agent_class = algorithms.config_class(agent) if agent else None
            for config_class in filter(None, (*options, suite_class, agent_class)):
                define_options(config_class, self.flag_values, leave_out.get(config_class, ()))
                config_class.check_types(file.values if file else {})
        chosen = {"environment": environment, "agent": agent}
        self._chosen = " and ".join(f"{kind} {name}" for kind, name in chosen.items() if name)
        values = {name: self.flag_values[name].value for name in self.flag_values if name not in general}
        if file:
            return dataclasses.replace(file, agent=agent, values={**values, **file.values})
        settings = Settings(environment or "", agent, values, dict.fromkeys(values, DEFAULT))
        return _over(
            settings, [(ALGORITHM, agent_class.shared_defaults(environment or "") if agent_class else {})]
        )

    def parse(self, lines: Sequence[str], is_file: bool = False) -> dict[str, Any]:
        """The values that arguments give or imply. Lines of a file for flags of other commands are skipped.

        Raises:
          UsageError: they are not flags of this command, or not valid.
        """
        for name in self.flag_values:
            self.flag_values[name].present = 0
        lines = without(lines, self._elsewhere - set(self.flag_values)) if is_file else lines
        with contextlib.suppress(UsageError) if self.helps else contextlib.nullcontext():
            rest = parse_flags(lines, self.flag_values, self._chosen, known_only=self.helps)
            if rest and not self.helps:
                raise UsageError(f"The argument {rest[0]!r} is not a flag; flags are written --name=value.")
        found = (self.flag_values[name] for name in self.flag_values)
        given = {flag.name: flag.value for flag in found if flag.present}
        implied = (self._implied.get(f"{name}={value}", {}) for name, value in given.items())
        return {name: value for values in (*implied, given) for name, value in values.items()}


def _over(settings: Settings, layers: Iterable[tuple[str, Mapping[str, Any]]]) -> Settings:
    """The settings with layers over them, from the lowest: origins, and values of those that exist here."""
    for origin, values in layers:
        known = {name: value for name, value in values.items() if name in settings.values}
        settings = settings.replaced(origin, **known)
    return settings


def _small(
    settings: Settings,
    name: str,
    line: _CommandLine,
    given: Mapping[str, Any],
    launching: Launching,
) -> Settings:
    """The settings with the preset for an environment and an agent or variant, or else computed defaults.

    `given` are the values on the command line, which they do not have yet.

    Raises:
      UsageError: the environment cannot be made, or the agent cannot act in it.
    """
    environment, own = settings.environment, [(FLAG, given)]
    if not {"environment", "game", "total_environment_frames"} & given.keys():
        launching.tell(_NOTHING_CHOSEN)
    preset = find_preset(launching.configs or configs_directory(), environment, name, given.get("game"))
    if preset:
        origin = f"{PRESET}{preset.parent.name}/{preset.name}"
        lines = expand_flagfiles([f"--flagfile={preset}"])
        small = _over(settings, [(origin, line.parse(lines, is_file=True))])
        if line.helps or not _is_for_others(small, _over(small, own), launching.probed):
            return small
    config_class, agent_class = environments.suite(environment).config_class, settings.agent_class
    assert agent_class is not None
    settings = _over(settings, [("environment", config_class.easier)])
    try:
        with usage_errors():
            config = _over(settings, own).environment_config()
            probed = launching.probed or found(*probe([(environment, config.to_dict())]))
    except UsageError:
        if line.helps:  # It needs no environment.
            return settings
        raise
    kind = kind_of(probed.spec)
    if needed := agent_class.refusal(kind.action):
        able = [a for a in algorithms.names() if not algorithms.config_class(a).refusal(kind.action)]
        raise UsageError(
            f"--agent={settings.agent} needs {needed}, and {environment} has {kind.action} actions; "
            f"choose one of: {', '.join(able)}."
        )
    launching.tell(f"no preset for {environment} {name}: defaults for {kind}; add --help to see them.")
    few = 1 if config.attaches else None
    sizes = (given.get("num_actors", few), given.get("env_batch_size", few))
    return _over(settings, [(str(kind), defaults.of_agent(name, kind, *sizes, "network" in given))])


def _is_for_others(preset: Settings, mine: Settings, probed: Probed | None) -> bool:
    """Whether the game of a preset has observations or actions of another kind than the chosen one.

    Games of gym have nothing in common; somebody's own may be any of them.

    Raises:
      UsageError: the chosen game's environment cannot be made.
    """
    if preset.values.get("game") == mine.values.get("game"):
        return False
    both = (preset, mine) if probed is None else (preset,)
    theirs, *ours = probe([(line.environment, line.environment_config().to_dict()) for line in both])
    with usage_errors():
        mine_probed = probed or found(ours[0])
    return isinstance(theirs, Probed) and kind_of(theirs.spec)[:2] != kind_of(mine_probed.spec)[:2]


def _fitted(settings: Settings, given: Collection[str], tell: Callable[[str], object]) -> Settings:
    """The settings with sizes that fit the number of environments, but those that are `given`."""
    values = settings.values
    per_actor = values.get("env_batch_size") or 1
    num_envs = values["num_actors"] * per_actor if values.get("num_actors") else values.get("num_envs") or 0
    for name in _FITTED if num_envs else ():
        if name in given or name not in values:
            continue
        old = values[name]
        if name == "num_eval_envs":
            new = min(old, num_envs // 2)
        elif name == "num_env_groups":
            new = math.gcd(old, per_actor)
        else:
            num_learners = values.get("num_learners") or 1 + values.get("learner_hosts", "").count(",")
            num_training = num_envs - settings.values.get("num_eval_envs", 0)
            new = defaults.fitting_batch_size(str(settings.agent), num_training, old, num_learners)
        if new != old:
            settings = settings.replaced(f"fitted to {num_envs} environments", **{name: new})
            tell(f"--{name}={new} and not {old}, to fit {num_envs} environments.")
    return settings


def _with_logdir(settings: Settings, choice: str) -> Settings:
    """The settings with a directory: by default one named after environment, agent and game."""
    if settings.values["logdir"] is not None:
        return settings
    seed = settings.values["seed"] if settings.is_chosen("seed") else None
    own = default_logdir(settings.environment, choice, settings.values.get("game"), seed=seed)
    return settings.replaced(DEFAULT, logdir=str(own))


def default_logdir(*parts: str | None, seed: int | None = None) -> Path:
    """By default, runs/ENVIRONMENT_AGENT_GAME_seedN, without what is None: the game, or a seed not given."""
    name = "_".join(str(part) for part in (*parts, None if seed is None else f"seed{seed}") if part)
    return Path(f"runs/{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}")


def _with_seed_of_run(settings: Settings) -> Settings:
    """The settings with the seed of the run in their directory, if there is one.

    Raises:
      UsageError: another seed was chosen.
    """
    logdir, seed = settings.values.get("logdir"), settings.values.get("seed")
    if logdir is None or seed is None:
        return settings
    from seed_rl.runs import record  # Actors have no use for it.

    try:
        recorded = record.read(logdir).learner_settings["seed"]
    except ValueError:  # There is no run, or `record.check` refuses it.
        return settings
    if settings.is_chosen("seed") and seed != recorded:
        raise UsageError(
            f"--logdir={logdir} was trained with seed {recorded}, not {seed}; leave --seed out, or choose "
            "another --logdir."
        )
    return settings if seed == recorded else settings.replaced(f"the run in {logdir}", seed=recorded)


def _explained(flag_values: flags.FlagValues, settings: Settings) -> list[str]:
    """The value of each option and its origin, in paragraphs."""
    paragraphs = []
    for heading, found_flags in flag_values.flags_by_module_dict().items():
        lines = [f"{heading}:"]
        for name in (flag.name for flag in found_flags if flag.name in settings.values):
            value = settings.values[name]
            text = str(value).lower() if isinstance(value, bool | None) else str(value)
            lines.append(f"  --{name}={text:<{max(1, 50 - len(name))}} {settings.origins[name]}")
        if lines[1:]:
            paragraphs.append("\n".join([*lines, ""]))
    return paragraphs
