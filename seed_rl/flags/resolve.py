"""Resolution of settings: one function decides every value, from layers in this order; a later one wins.

1. `default`: the option's own.
2. `algorithm`: the algorithm's default of an option that it shares with others, in the chosen environment.
3. For a launcher without a flagfile: the `preset` of the environment and agent; where there is none, the
   `environment`'s easier settings, and what suits its observations and actions (`flags.defaults`).
4. The command line: `flag`, or the name of a flagfile; the later one wins.
5. The seed of the run in the directory, if there is one.
6. Sizes that are defaults and do not fit the number of environments: `fitted to N environments`.

A process of a launcher reads the launcher's file (--settings) in place of all but the command line.
docs/presets.md describes the layers for users.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from absl import flags

from seed_rl.algorithms import registry as algorithms
from seed_rl.algorithms.options import kind_of
from seed_rl.environments import registry as environments
from seed_rl.environments.making import Probed
from seed_rl.flags import defaults, help
from seed_rl.flags.command_line import (
    asks_help,
    define_general,
    end_with_help,
    name_positional,
    parse_flags,
    scan,
    scan_environment,
)
from seed_rl.flags.definitions import define_options, option_names, whole_number
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.flags.flagfile import configs_directory, expand_flagfiles, find_preset, in_parts, without
from seed_rl.flags.settings import ALGORITHM, DEFAULT, FLAG, PRESET, Settings, check_choices
from seed_rl.launch.probe import found, probe
from seed_rl.options import Options

DEFAULT_ENVIRONMENT, DEFAULT_AGENT = "atari", "vtrace"

_CHOICES = {True: "--environment=NAME and --agent=NAME", False: "--environment=NAME"}
_MORE = {key: f"\nWith {flags}, help also prints their flags." for key, flags in _CHOICES.items()}
_SIZES = ("num_actors", "env_batch_size")
_POSITIONAL = ("environment", "agent", *_SIZES)
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
    environment, name, own = _names(expanded, launching, is_complete=expanded != args)
    has_file = own is not None or expanded != args
    check_choices(environment, name)
    agent = (algorithms.base(name) if launching and name else name) if with_agent else None
    layers = _Layers(environment, agent, options, leave_out or {}, elsewhere, with_agent, bool(launching))
    if launching and environment and not has_file:
        layers.start(environment, name or "", args, launching)
    if own:
        layers.take_settings(own)
    if asks_help(expanded):
        is_all = None not in ((environment, agent) if with_agent else (environment,))
        end_with_help(description, layers.flag_values, expanded, "" if is_all else _MORE[with_agent])
    if with_agent:
        _check_chosen(environment, agent)
    layers.take_arguments(parts)
    if own:
        return layers.settings()
    if agent:
        layers.fit(launching.tell if launching and not has_file else lambda note: None)
    settings = layers.settings()
    if not launching:
        return _with_seed_of_run(settings)
    settings = _with_logdir(settings, name or "")
    if launching.resumes:
        settings = _with_seed_of_run(settings)
    if layers.flag_values["explain"].value:
        help.write(_explained(layers.flag_values, settings))
        raise SystemExit(0)
    return settings


def _names(
    expanded: Sequence[str], launching: Launching | None, is_complete: bool
) -> tuple[str | None, str | None, Settings | None]:
    """The environment and the agent of a command line, and a launcher's settings that it names.

    A launcher has defaults for both; for the environment, unless flagfiles make the command line complete.
    """
    named = scan(expanded, ("environment", "agent", "settings"))
    environment, name = named["environment"], named["agent"]
    if launching:
        return environment or (None if is_complete else DEFAULT_ENVIRONMENT), name or DEFAULT_AGENT, None
    if not named["settings"]:
        return environment, name, None
    own = Settings.read_file(named["settings"])
    return environment or own.environment or None, name or own.agent, own


def _check_chosen(environment: str | None, agent: str | None) -> None:
    for kind, chosen, valid in (
        ("environment", environment, environments.names()),
        ("agent", agent, algorithms.choices()),
    ):
        if chosen is None:
            raise UsageError(f"No {kind} is chosen; add --{kind}=NAME ({', '.join(valid)}).")


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


class _Layers:
    """Flags and the origins of their values, while layers are laid over one another.

    Attributes:
      flag_values: the flags.
    """

    def __init__(
        self,
        environment: str | None,
        agent: str | None,
        options: Sequence[type[Options]],
        leave_out: Mapping[type[Options], Collection[str]],
        elsewhere: Sequence[type[Options]],
        with_agent: bool,
        launches: bool,
    ):
        """Defines the flags of these classes, the environment and the agent, with the agent's defaults."""
        self.flag_values = flags.FlagValues()
        self._environment, self._agent = environment, agent
        self._origins: dict[str, str] = {}
        define_general(self.flag_values, with_agent, launches)
        self._general, self._given = set(self.flag_values), set[str]()
        with usage_errors():
            self._environment_class = environments.suite(environment).config_class if environment else None
            self._agent_class = agent_class = algorithms.config_class(agent) if agent else None
        self._classes = [kind for kind in (*options, self._environment_class, agent_class) if kind]
        for config_class in self._classes:
            define_options(config_class, self.flag_values, leave_out.get(config_class, ()))
        if agent_class is not None:
            self._set(ALGORITHM, agent_class.shared_defaults(environment or ""))
        self._skipped = option_names(*elsewhere) - set(self.flag_values)

    def start(self, environment: str, name: str, args: Sequence[str], launching: Launching) -> None:
        """Lays down the preset for an environment and an agent or variant, or else computed defaults."""
        if not any(scan(args, ("environment", "game", "total_environment_frames")).values()):
            launching.tell(_NOTHING_CHOSEN)
        self._check_count(args)
        chosen = [f"--environment={environment}", *args]
        game = scan(args, ("game",))["game"]
        preset = find_preset(launching.configs or configs_directory(), environment, name, game)
        lines = expand_flagfiles([f"--flagfile={preset}"]) if preset else []
        if preset and not _is_for_others(lines, chosen, launching.probed):
            self._parse(f"{PRESET}{preset.parent.name}/{preset.name}", without(lines, self._skipped))
            return
        assert self._environment_class is not None and self._agent_class is not None
        easier = self._environment_class.easier
        self._set("environment", easier)
        try:
            with usage_errors():
                config = scan_environment(chosen, easier)
                probed = launching.probed or found(*probe([(environment, config)]))
        except UsageError:
            if asks_help(args):  # It needs no environment.
                return
            raise
        kind = kind_of(probed.spec)
        if needed := self._agent_class.refusal(kind.action):
            able = [a for a in algorithms.names() if not algorithms.config_class(a).refusal(kind.action)]
            raise UsageError(
                f"--agent={self._agent} needs {needed}, and {environment} has {kind.action} actions; "
                f"choose one of: {', '.join(able)}."
            )
        launching.tell(f"no preset for {environment} {name}: defaults for {kind}; add --help to see them.")
        sizes = {size: whole_number(text) for size, text in scan(args, _SIZES).items()}
        has_network = scan(args, ("network",))["network"] is not None
        self._set(str(kind), defaults.of_agent(name, kind, has_network=has_network, **sizes))

    def take_settings(self, own: Settings) -> None:
        """Lays down what a launcher has resolved (UsageError: a value is of another type than its option)."""
        with usage_errors():
            for config_class in self._classes:
                config_class.check_types(own.values)
        for name in own.values.keys() & set(self.flag_values):
            self._set(own.origins.get(name, DEFAULT), {name: own.values[name]})

    def take_arguments(self, parts: Sequence[tuple[str, list[str]]]) -> None:
        """Lays down the command line. Lines in its flagfiles for flags of other commands are skipped."""
        for path, lines in parts:
            self._given |= self._parse(path or FLAG, without(lines, self._skipped) if path else lines)

    def fit(self, tell: Callable[[str], object]) -> None:
        """Makes sizes fit the number of environments, unless the command line has them."""
        values: dict[str, Any] = {name: self.flag_values[name].value for name in self.flag_values}
        per_actor = values.get("env_batch_size") or 1
        num_envs = (
            values["num_actors"] * per_actor if values.get("num_actors") else values.get("num_envs") or 0
        )
        free = [name for name in _FITTED if name in values and name not in self._given]
        for name in free if num_envs else ():
            old = values[name]
            if name == "num_eval_envs":
                new = min(old, num_envs // 2)
            elif name == "num_env_groups":
                new = math.gcd(old, per_actor)
            else:
                num_learners = values.get("num_learners") or 1 + values.get("learner_hosts", "").count(",")
                num_training = num_envs - values.get("num_eval_envs", 0)
                new = defaults.fitting_batch_size(str(self._agent), num_training, old, num_learners)
            values[name] = new
            if new != old:
                self._set(f"fitted to {num_envs} environments", {name: new})
                tell(f"--{name}={new} and not {old}, to fit {num_envs} environments.")

    def settings(self) -> Settings:
        """The settings as they are now."""
        names = [name for name in self.flag_values if name not in self._general]
        values = {name: self.flag_values[name].value for name in names}
        origins = {name: self._origins.get(name, DEFAULT) for name in names}
        return Settings(self._environment or "", self._agent, values, origins)

    def _set(self, origin: str, values: Mapping[str, Any]) -> None:
        for name in values.keys() & set(self.flag_values):
            self.flag_values[name].value = values[name]
            self._origins[name] = origin

    def _parse(self, origin: str, args: Sequence[str]) -> set[str]:
        """Lays down arguments, which must be flags; returns the names of these."""
        for name in self.flag_values:
            self.flag_values[name].present = 0
        chosen = f"environment {self._environment}" if self._environment else ""
        rest = parse_flags(
            args, self.flag_values, f"{chosen} and agent {self._agent}" if self._agent else chosen
        )
        if rest:
            raise UsageError(f"The argument {rest[0]!r} is not a flag; flags are written --name=value.")
        found = {name for name in self.flag_values if self.flag_values[name].present}
        self._origins |= dict.fromkeys(found, origin)
        return found

    def _check_count(self, args: Sequence[str]) -> None:
        """Refuses a game in the place of the number of actors (UsageError)."""
        count = scan(args, ("num_actors",))["num_actors"]
        if count is not None and whole_number(count) is None and "game" in self.flag_values:
            raise UsageError(
                f"--num_actors={count} is not valid; it must be a whole number, and a game is written "
                f"--game={count}."
            )


def _is_for_others(lines: Sequence[str], chosen: Sequence[str], probed: Probed | None) -> bool:
    """Whether the game of a preset, by its lines, has observations or actions of another kind than here.

    Games of gym have nothing in common; somebody's own may be any of them.

    Raises:
      UsageError: the chosen game's environment cannot be made.
    """
    here = [*lines, *chosen]
    if scan(lines, ("game",)) == scan(here, ("game",)) or asks_help(chosen):
        return False
    environment = scan(here, ("environment",))["environment"] or ""
    configs = [scan_environment(lines), *(() if probed else (scan_environment(here),))]
    theirs, *ours = probe([(environment, config) for config in configs])
    with usage_errors():
        mine = probed or found(ours[0])
    return isinstance(theirs, Probed) and kind_of(theirs.spec)[:2] != kind_of(mine.spec)[:2]


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
        lines = []
        for flag in found_flags:
            if flag.name in settings.values:
                value = settings.values[flag.name]
                text = str(value).lower() if isinstance(value, bool | None) else str(value)
                lines.append(
                    f"  --{flag.name}={text:<{max(1, 50 - len(flag.name))}} {settings.origins[flag.name]}"
                )
        if lines:
            paragraphs.append("\n".join([f"{heading}:", *lines, ""]))
    return paragraphs
