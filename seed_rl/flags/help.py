"""The text of help: the most useful flags in groups, or all flags; with the values of this very command."""

import os
import shutil
import sys
import textwrap

from absl import flags

ARGUMENTS = frozenset(("--help", "--helpfull", "-help", "-helpfull", "-h"))
FULL = frozenset(("--helpfull", "-helpfull"))

# The most useful flags by what they set, in the order of help. A command lists those that it has.
USEFUL = {
    "Environment and agent": "environment agent game",
    "Search": "space trials seeds parallel sampler",
    "Run": "total_environment_frames logdir live checkpoint episodes greedy seed init_checkpoint",
    "Output": "record style metric format label output overwrite",
    "Actors": "num_actors env_batch_size num_envs server_address task token_file ray_address",
    "Learning": "learning_rate batch_size unroll_length epochs passes n_steps discounting entropy_cost "
    "replay_buffer_size replay_ratio num_eval_envs",
    "Network": "torso mlp_sizes lstm_size frame_stack normalize_observations",
}
INTRODUCTION = "The most useful flags, with the values of this command"
_NAME_COLUMNS, _LEAST_COLUMNS, _MOST_COLUMNS = 36, 70, 110


def texts(flag_values: flags.FlagValues, full: bool) -> list[str]:
    """The paragraphs below a command's description, with the values that the flags have now."""
    useful = {
        heading: found
        for heading, names in USEFUL.items()
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
