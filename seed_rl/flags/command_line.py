"""Command lines: arguments become flags, flags become options, and help prints them."""

import contextlib
import difflib
import os
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NoReturn

from absl import flags

from seed_rl.algorithms import registry as algorithms
from seed_rl.environments import registry as environments
from seed_rl.flags.definitions import (
    OptionsT,
    define_options,
    read_options,
)
from seed_rl.flags.errors import UsageError

_GENERAL = "The choice of environment and agent, and help"
_TYPE_NAMES = {"int": "a whole number", "float": "a number", "bool": "true or false"}
# Other libraries' usual names of our flags, where spelling does not lead to them.
_SYNONYMS = {
    "lr": ("learning_rate", "actor_learning_rate"),
    "gamma": ("discounting",),
    "total_timesteps": ("total_environment_frames",),
    "num_envs": ("env_batch_size", "num_actors"),
    "device": ("training_devices",),
    "env_id": ("game",),
}
_HELP = {
    "help": "Prints the most useful flags, with the values of this command.",
    "helpfull": "Prints all flags of this command, the chosen environment and the chosen agent.",
}

_HELP_ARGUMENTS = frozenset(("--help", "--helpfull", "-help", "-helpfull", "-h"))
_FULL = frozenset(("--helpfull", "-helpfull"))

# The most useful flags by what they set, in the order of help. A command lists those that it has.
_USEFUL = {
    "Environment and agent": "environment agent game",
    "Search": "space trials seeds parallel sampler",
    "Run": "total_environment_frames logdir live checkpoint episodes greedy against seed init_checkpoint",
    "Output": "record style metric format label output overwrite",
    "Actors": "num_actors env_batch_size num_envs server_address task token_file ray_address",
    "Learning": "learning_rate batch_size unroll_length epochs passes n_steps discounting entropy_cost "
    "replay_buffer_size replay_ratio num_eval_envs",
    "Network": "torso mlp_sizes lstm_size frame_stack normalize_observations",
}
INTRODUCTION = "The most useful flags, with the values of this command"
_NAME_COLUMNS, _LEAST_COLUMNS, _MOST_COLUMNS = 36, 70, 110


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
        with contextlib.suppress(UsageError):  # Help is for readers who are new to the flags.
            parse_flags(argv[1:], flag_values, known_only=True)
        end_with_help(description, flag_values, argv[1:])
    rest = parse_flags(argv[1:], flag_values, known_only=pass_through)
    others = [arg for arg in rest if pass_through and arg.startswith("--")]
    words = [arg for arg in rest if arg not in others]
    if positional is None:
        return read_options(config_class, flag_values.flag_values_dict()), [*words, *others]
    for flag in name_positional(words, positional):
        name, _, value = flag.removeprefix("--").partition("=")
        if flag_values[name].present:
            raise UsageError(
                f"The argument {value!r} and --{name} say the same thing; leave one of them out."
            )
        flag_values[name].parse(value)
    return read_options(config_class, flag_values.flag_values_dict()), others


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
    parse_flags(args, flag_values, known_only=True)
    return {name: getattr(flag_values, name) for name in names}


def asks_help(args: Collection[str]) -> bool:
    """Whether one of the arguments requests help."""
    return not _HELP_ARGUMENTS.isdisjoint(args)


def nearest_flags(name: str, known: Collection[str]) -> list[str]:
    """The flags among `known` that somebody may mean by `name`: by meaning, else by spelling."""
    meant = _SYNONYMS.get(name.replace("-", "_"), ())
    return [flag for flag in meant if flag in known] or difflib.get_close_matches(name, known)


def define_general(flag_values: flags.FlagValues, with_agent: bool, launches: bool = False) -> None:
    """Defines the flags that choose the environment and the agent, and those for files and help."""
    flag_values.set_gnu_getopt(True)
    found = [
        _string_flag("environment", f"The environment to act in, one of: {_list(environments.names())}.")
    ]
    if with_agent:
        text = f"The algorithm to train with, one of: {_list(algorithms.choices())}."
        found.append(_string_flag("agent", text))
    found.append(
        _string_flag("flagfile", "A file of flags, one per line; later flags override earlier ones.")
    )
    found += [flags.BooleanFlag(name, False, text) for name, text in _HELP.items()]
    if launches:
        text = "Prints the value of every flag and where it comes from, and trains nothing."
        found.append(flags.BooleanFlag("explain", False, text))
    else:
        text = "The file in which a launcher has the settings of its processes; flags override them."
        found.append(_string_flag("settings", text))
    for flag in found:
        flags.DEFINE_flag(flag, flag_values, module_name=_GENERAL)


def end_with_help(
    description: str, flag_values: flags.FlagValues, args: Sequence[str], more: str = ""
) -> NoReturn:
    """Prints help on the flags with the values that they have now, and ends this process with 0."""
    is_full = not _FULL.isdisjoint(args)
    # Python with -OO has no docstrings.
    write([(description or "").strip(), *_help_texts(flag_values, is_full), more])
    raise SystemExit(0)


def _help_texts(flag_values: flags.FlagValues, full: bool) -> list[str]:
    """The paragraphs below a command's description, with the values that the flags have now."""
    useful = {
        heading: found
        for heading, names in _USEFUL.items()
        if (found := [_entry(flag_values[name]) for name in names.split() if name in flag_values])
    }
    if full or not useful:
        for name in flag_values:
            flag_values.set_default(name, flag_values[name].value)
        return [flag_values.get_help(include_special_flags=False)]
    groups = ("\n".join([f"\n{heading}:", *entries]) for heading, entries in useful.items())
    return [f"\n{INTRODUCTION}:", *groups, "\n--helpfull prints all flags."]


def write(paragraphs: list[str]) -> None:
    """Prints paragraphs; a reader that has had enough, such as `head`, is no error."""
    try:
        print(*filter(None, paragraphs), sep="\n", flush=True)
    except BrokenPipeError:  # Without this, Python would fail at exit on what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _entry(flag: flags.Flag) -> str:
    """A flag with its value and its whole help text, wrapped to the terminal."""
    value = str(flag.value).lower() if isinstance(flag.value, bool) else flag.value
    name = f"  --{flag.name}" + ("" if flag.value is None else f"={value}")
    columns = min(_MOST_COLUMNS, max(_LEAST_COLUMNS, shutil.get_terminal_size((_MOST_COLUMNS, 0)).columns))
    lines = textwrap.wrap(flag.help, columns - _NAME_COLUMNS, break_on_hyphens=False)
    text = textwrap.indent("\n".join(lines), " " * _NAME_COLUMNS)
    return f"{name:<{_NAME_COLUMNS}}{text.lstrip()}" if len(name) < _NAME_COLUMNS else f"{name}\n{text}"


def _string_flag(name: str, text: str) -> flags.Flag:
    return flags.Flag(flags.ArgumentParser(), None, name, None, text)


def parse_flags(
    args: Sequence[str], flag_values: flags.FlagValues, chosen: str = "", known_only: bool = False
) -> list[str]:
    """Sets flags; returns the arguments that are no flags, and with `known_only` those that do not exist.

    Raises:
      UsageError: a flag does not exist, or a value is not valid; `chosen` is in the sentence.
    """
    try:
        return flag_values(["main", *args], known_only)[1:]
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
    if name == "num_actors" and "game" in flag_values:  # Where the form has it, people write a game.
        valid += f", and a game is written --game={value}"
    return f"--{name}={value} is not valid; {valid}."


def _list(names: Collection[str]) -> str:
    return ", ".join(names)


def check_output(path: Path, flag: str, overwrite: bool) -> None:
    """Checks that the file that a flag names can be written; its directory need not exist. Leaves nothing.

    Raises:
      UsageError: the file already exists, or cannot be written.
    """
    if os.path.isdir(path):
        raise UsageError(f"--{flag}={path} is a directory; name a file.")
    if os.path.exists(path) and not overwrite:
        raise UsageError(f"{path} already exists; add --overwrite, or name another file with --{flag}.")
    directory = next(parent for parent in path.absolute().parents if os.path.exists(parent))
    try:
        with contextlib.suppress(FileNotFoundError):
            os.lstat(path)  # The name may be too long.
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({directory}: {error.strerror}); name another file with --{flag}."
        ) from None
