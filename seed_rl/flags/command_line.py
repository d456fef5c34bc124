"""Turns the command line into configurations, in two stages.

The first stage looks only for the environment and the agent. The second defines the flags of these two and no
others, and parses everything.
"""

import contextlib
import dataclasses
import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

from absl import flags

from seed_rl.algorithms import registry as algorithms
from seed_rl.environments import registry as environments
from seed_rl.environments.base import EnvironmentConfig
from seed_rl.flags import help
from seed_rl.flags.choices import check_choices
from seed_rl.flags.definitions import (
    OptionsT,
    define_options,
    given_flags,
    option_names,
    options_of,
    read_options,
)
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.flags.flagfile import expand_flagfiles
from seed_rl.options import Options

_GENERAL = "The choice of environment and agent, and help"
_CHOICES = {True: "--environment=NAME and --agent=NAME", False: "--environment=NAME"}
_TYPE_NAMES = {"int": "a whole number", "float": "a number", "bool": "true or false"}
# What most other libraries call our flags, where spelling does not lead to them.
_SYNONYMS = {
    "lr": ("learning_rate", "actor_learning_rate"),
    "gamma": ("discounting",),
    "total_timesteps": ("total_environment_frames",),
    "num_envs": ("env_batch_size", "num_actors"),
    "device": ("training_devices",),
    "env_id": ("game",),
}


@dataclasses.dataclass(frozen=True)
class CommandLine:
    """A parsed command line.

    Attributes:
      environment: name of the environment suite; empty if an actor leaves it to its learner.
      agent: name of the agent; None for a main that takes none.
      environment_class: the suite's configuration class; None if there is no suite.
      agent_class: the agent's configuration class; None for a main that takes no agent.
      flag_values: the parsed flags.
    """

    environment: str
    agent: str | None
    environment_class: type[EnvironmentConfig] | None
    agent_class: type[Options] | None
    flag_values: flags.FlagValues

    def read(self, config_class: type[OptionsT], **fixed: Any) -> OptionsT:
        """The validated configuration; `fixed` values do not come from flags.

        Raises:
          UsageError: an invalid value.
        """
        return read_options(config_class, self.flag_values, **fixed)

    def environment_config(self) -> EnvironmentConfig:
        """The chosen environment's configuration, validated (UsageError)."""
        assert self.environment_class is not None
        return self.read(self.environment_class)

    def agent_config(self) -> Options:
        """The chosen agent's configuration, validated (UsageError)."""
        assert self.agent_class is not None
        return self.read(self.agent_class)

    def given_environment(self) -> dict[str, Any]:
        """The environment and its settings, as far as flags set them; JSON values, validated (UsageError)."""
        if self.environment_class is None:
            return {}
        names = [name for name in option_names(self.environment_class) if self.flag_values[name].present]
        settings = self.environment_config().to_dict()
        return {"environment": self.environment} | {name: settings[name] for name in names}

    def given(self, *config_classes: type[Options] | None, leave_out: Collection[str] = ()) -> list[str]:
        """The flags of these classes that were set, each once as `--name=value`, for passing them on."""
        fields = [leaf.name for kind in config_classes if kind for leaf in options_of(kind)]
        names = [name for name in dict.fromkeys(fields) if name in self.flag_values and name not in leave_out]
        return given_flags(self.flag_values, names)


def parse(
    argv: Sequence[str],
    description: str,
    options: Sequence[type[Options]],
    *,
    with_agent: bool = True,
    leave_out: Mapping[type[Options], Collection[str]] | None = None,
    elsewhere: Sequence[type[Options]] = (),
) -> CommandLine:
    """Parses a command line, `[environment] [agent] [--flags]`.

    Args:
      argv: the arguments, the program's name first.
      description: the text that `--help` prints above the flags.
      options: classes whose fields become flags of this main, besides the environment's and the agent's.
      with_agent: whether this main needs an environment and an agent; otherwise it takes no agent.
      leave_out: by class, fields that get no flag.
      elsewhere: classes of other mains. A flagfile may be shared with them: its lines for their flags
        are skipped.

    Raises:
      UsageError: bad input, in one sentence.
      SystemExit: with code 0, after printing the flags, for `--help` and `--helpfull`.
    """
    args = name_positional(argv[1:], ("environment", "agent") if with_agent else ("environment",))
    expanded = expand_flagfiles(args)
    environment, agent = scan(expanded, ("environment", "agent")).values()
    check_choices(environment, agent)
    with usage_errors():
        environment_class = environments.suite(environment).config_class if environment else None
        agent_class = algorithms.config_class(agent) if agent else None
    foreign = option_names(*elsewhere)
    if not with_agent:
        agent = agent_class = None

    flag_values = flags.FlagValues()
    _define_general(flag_values, with_agent)
    for config_class in (*options, environment_class, agent_class):
        if config_class is not None:
            define_options(config_class, flag_values, (leave_out or {}).get(config_class, ()))
    if agent_class is not None:
        for name, value in agent_class.shared_defaults(environment or "").items():
            if name in flag_values:
                flag_values.set_default(name, value)
    if asks_help(expanded):
        is_more = environment is None or (with_agent and agent is None)
        more = f"\nWith {_CHOICES[with_agent]}, help also prints their flags." if is_more else ""
        _end_with_help(description, flag_values, expanded, more)
    if with_agent and environment is None:
        raise UsageError(f"No environment is chosen; add --environment=NAME ({_list(environments.names())}).")
    if with_agent and agent is None:
        raise UsageError(f"No agent is chosen; add --agent=NAME ({_list(algorithms.choices())}).")
    chosen = f"environment {environment} and agent {agent}" if agent else f"environment {environment}"
    _parse_all(expand_flagfiles(args, passed_over=foreign - set(flag_values)), flag_values, chosen)
    return CommandLine(environment or "", agent, environment_class, agent_class, flag_values)


def parse_options(
    argv: Sequence[str],
    description: str,
    config_class: type[OptionsT],
    *,
    positional: Sequence[str] | None = (),
    pass_through: bool = False,
) -> tuple[OptionsT, list[str]]:
    """Parses the command line of a main that takes neither an environment nor an agent.

    Args:
      argv: the arguments, the program's name first.
      description: the text that `--help` prints above the flags.
      config_class: the main's options.
      positional: the options that arguments without a name set, in this order; None lets all of them through.
      pass_through: whether to let through other flags (written --name=value), and flagfiles as they are.

    Returns:
      The options, and the arguments that were let through.

    Raises:
      UsageError: bad input, in one sentence.
      SystemExit: with code 0, after printing the flags, for `--help` and `--helpfull`.
    """
    flag_values = _Passing() if pass_through else flags.FlagValues()
    flag_values.set_gnu_getopt(True)
    define_options(config_class, flag_values)
    if asks_help(argv[1:]):
        _end_with_help(description, flag_values, argv[1:])
    _, *rest = _parse(argv[1:], flag_values, known_only=pass_through)
    others = [arg for arg in rest if pass_through and arg.startswith("--")]
    words = [arg for arg in rest if arg not in others]
    if positional is None:
        return read_options(config_class, flag_values), [*words, *others]
    for flag in name_positional(words, positional):
        name, _, value = flag.removeprefix("--").partition("=")
        if flag_values[name].present:
            raise UsageError(
                f"The argument {value!r} and --{name} say the same thing; leave one of them out."
            )
        flag_values[name].parse(value)
    return read_options(config_class, flag_values), others


class _Passing(flags.FlagValues):
    def read_flags_from_files(self, argv: Sequence[str], force_gnu: bool = True) -> list[str]:
        """The arguments as they are: the main that they are passed on to reads its flagfiles."""
        return list(argv)


def name_positional(args: Sequence[str], names: Sequence[str]) -> list[str]:
    """Turns the arguments before the first flag into flags with these names, which stand after all others.

    Raises:
      UsageError: there are more of them than names.
    """
    count = next((i for i, arg in enumerate(args) if arg.startswith("-")), len(args))
    if count > len(names):
        form = "".join(f"[{name}] " for name in names)
        raise UsageError(f"The argument {args[len(names)]!r} is one too many; the form is {form}[--flags].")
    return [*args[count:], *(f"--{name}={arg}" for name, arg in zip(names, args[:count], strict=False))]


def scan(args: Sequence[str], names: Collection[str]) -> dict[str, str | None]:
    """The values of a few flags (names without dashes), ignoring all others; None for those not given.

    `args` is a command line without the program's name, with flagfiles expanded.

    Raises:
      UsageError: one of the flags has no value.
    """
    flag_values = flags.FlagValues()
    flag_values.set_gnu_getopt(True)
    for name in names:
        flags.DEFINE_flag(_string_flag(name, ""), flag_values)
    _parse(args, flag_values, known_only=True)
    return {name: getattr(flag_values, name) for name in names}


def asks_help(args: Collection[str]) -> bool:
    """Whether one of the arguments asks for help."""
    return not help.ARGUMENTS.isdisjoint(args)


def nearest_flags(name: str, known: Collection[str]) -> list[str]:
    """The flags among `known` that somebody may mean by `name`: by meaning, else by spelling."""
    meant = _SYNONYMS.get(name.replace("-", "_"), ())
    return [flag for flag in meant if flag in known] or difflib.get_close_matches(name, known)


def scan_environment(args: Sequence[str]) -> EnvironmentConfig:
    """The settings of the environment that a command line chooses; other flags are ignored.

    Raises:
      UsageError: no environment is chosen, or a value is invalid.
    """
    name = scan(args, ("environment",))["environment"] or ""
    with usage_errors():
        config_class = environments.suite(name).config_class
    flag_values = flags.FlagValues()
    _define_general(flag_values, with_agent=True)
    define_options(config_class, flag_values)
    _parse([arg for arg in args if arg not in help.ARGUMENTS], flag_values, known_only=True)
    return read_options(config_class, flag_values)


def _define_general(flag_values: flags.FlagValues, with_agent: bool) -> None:
    flag_values.set_gnu_getopt(True)
    where: dict[str, Any] = {"flag_values": flag_values, "module_name": _GENERAL}
    names = _list(environments.names())
    flags.DEFINE_flag(_string_flag("environment", f"The environment to act in, one of: {names}."), **where)
    if with_agent:
        names = _list(algorithms.choices())
        flags.DEFINE_flag(_string_flag("agent", f"The algorithm to train with, one of: {names}."), **where)
    text = "A file of flags, one per line; later flags override earlier ones."
    flags.DEFINE_flag(_string_flag("flagfile", text), **where)
    text = "Prints the most useful flags, with the values of this command."
    flags.DEFINE_flag(flags.BooleanFlag("help", False, text), **where)
    text = "Prints all flags of this command, the chosen environment and the chosen agent."
    flags.DEFINE_flag(flags.BooleanFlag("helpfull", False, text), **where)


def _end_with_help(
    description: str, flag_values: flags.FlagValues, args: Sequence[str], more: str = ""
) -> NoReturn:
    given = [arg for arg in args if arg not in help.ARGUMENTS]
    with contextlib.suppress(UsageError):  # Help is there for those who do not know the flags yet.
        _parse(given, flag_values, known_only=True)
    is_full = not help.FULL.isdisjoint(args)
    # Python with -OO has no docstrings.
    help.write([(description or "").strip(), *help.texts(flag_values, is_full), more])
    raise SystemExit(0)


def _string_flag(name: str, text: str) -> flags.Flag:
    return flags.Flag(flags.ArgumentParser(), None, name, None, text)


def _parse_all(args: Sequence[str], flag_values: flags.FlagValues, chosen: str) -> None:
    """The second stage: every argument must be a flag of this command line."""
    _, *positional = _parse(args, flag_values, chosen)
    if positional:
        raise UsageError(f"The argument {positional[0]!r} is not a flag; flags are written --name=value.")


def _parse(
    args: Sequence[str], flag_values: flags.FlagValues, chosen: str = "", known_only: bool = False
) -> list[str]:
    try:
        return flag_values(["main", *args], known_only)
    except flags.UnrecognizedFlagError as error:
        near = [f"--{name}" for name in nearest_flags(error.flagname, list(flag_values))]
        hint = f"did you mean {' or '.join(near)}?" if near else "--help lists the valid ones."
        whose = f" for {chosen}" if chosen else ""
        raise UsageError(f"Unknown flag --{error.flagname}{whose}; {hint}") from None
    except (flags.Error, ValueError) as error:
        raise UsageError(_illegal_value(str(error), flag_values)) from None


def _illegal_value(text: str, flag_values: flags.FlagValues) -> str:
    """The message of absl about a bad value, as one sentence that says what to change."""
    match = re.match(r"flag --(\w+)=(.*?): ", text, re.DOTALL)
    if not match:
        return text.rstrip(".") + "; flags are written --name=value."
    name, value = match.groups()
    parser = flag_values[name].parser
    choices = getattr(parser, "enum_values", None)
    valid = f"choose one of: {_list(choices)}" if choices else f"it must be {_TYPE_NAMES[parser.flag_type()]}"
    return f"--{name}={value} is not valid; {valid}."


def _list(names: Collection[str]) -> str:
    return ", ".join(names)
