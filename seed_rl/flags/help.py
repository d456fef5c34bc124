"""What help prints: the most useful flags on a line each, or all; with the values of this very command."""

import os
import sys
import textwrap

from absl import flags

ARGUMENTS = frozenset(("--help", "--helpfull", "-help", "-helpfull", "-h"))
FULL = frozenset(("--helpfull", "-helpfull"))

# The most useful first. A command lists those that it has, in at most as many lines as fit on a screen.
USEFUL = (
    *("environment", "agent", "game", "total_environment_frames", "space", "trials", "seeds", "parallel"),
    *("sampler", "logdir", "live", "checkpoint", "episodes", "greedy", "record", "style", "metric"),
    *("format", "label", "output", "overwrite", "seed", "num_actors", "env_batch_size", "num_envs"),
    *("server_address", "task", "token_file", "ray_address"),
    *("learning_rate", "batch_size", "unroll_length", "epochs", "passes", "n_steps", "discounting"),
    *("entropy_cost", "replay_buffer_size", "replay_ratio", "torso", "mlp_sizes", "lstm_size"),
    *("frame_stack", "normalize_observations", "num_eval_envs", "init_checkpoint"),
)
_NAME_COLUMNS = 38
_COLUMNS = 110


def texts(flag_values: flags.FlagValues, full: bool) -> list[str]:
    """The paragraphs below a command's description, with the values that the flags have now."""
    useful = [name for name in USEFUL if name in flag_values]
    if full or not useful:
        for name in flag_values:
            flag_values.set_default(name, flag_values[name].value)
        return [flag_values.get_help(include_special_flags=False)]
    lines = [_line(flag_values[name]) for name in useful]
    return [
        "\nThe most useful flags, with the values of this command:",
        *lines,
        "\n--helpfull prints all flags.",
    ]


def write(paragraphs: list[str]) -> None:
    """Prints paragraphs; a reader that has had enough, such as `head`, is no error."""
    try:
        print(*filter(None, paragraphs), sep="\n", flush=True)
    except BrokenPipeError:  # Without this, Python would fail at exit on what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _line(flag: flags.Flag) -> str:
    value = str(flag.value).lower() if isinstance(flag.value, bool) else flag.value
    name = f"  --{flag.name}" + ("" if flag.value is None else f"={value}")
    text = textwrap.shorten(
        flag.help, max(20, _COLUMNS - max(_NAME_COLUMNS, len(name) + 1)), placeholder=" …"
    )
    return f"{name:<{_NAME_COLUMNS - 1}} {text}"
