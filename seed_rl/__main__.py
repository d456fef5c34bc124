"""The command `seed_rl`, also as `python -m seed_rl`: finds the module of a command and runs its main."""

import difflib
import importlib
from typing import NoReturn

import seed_rl
from seed_rl.flags.errors import UsageError, run_main

COMMANDS = {
    "train": "train on this machine: a learner and its actors with one command",
    "evaluate": "evaluate a trained agent: scores, JSON, a video",
    "plot": "plot runs: learning curves over seeds, sorted sweeps, many games",
    "doctor": "say which stage is the bottleneck of a run, and which flag to change",
    "sweep": "search over hyperparameters on this machine",
    "cluster": "train on a Ray cluster: as train does, spread over its nodes",
    "submit": "submit a training job to Vertex AI on Google Cloud (in a clone)",
    "learner": "the learner alone, for actors on other machines",
    "actor": "one actor process, for a learner that runs elsewhere",
    "gateway": "serve actors elsewhere for a learner, as its --num_gateways does",
    "vertex": "one container of a Vertex AI job, as submit starts it",
    "completion": "print how a shell completes these commands and their flags",
}
# The mains that are not in `seed_rl.commands`.
_ELSEWHERE = {"submit": "gcp.submit"}
_HELP = ("help", "-h", "-help", "--help", "--helpfull")


def overview() -> str:
    """One line per command."""
    lines = [f"  seed_rl {name:<11} {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "seed_rl: deep reinforcement learning with central inference. Commands, each with --help:\n",
            *lines,
            "\nStart with: seed_rl train catch vtrace",
        ]
    )


def run(argv: list[str]) -> int | None:
    """Runs the command that the arguments name; returns its exit code.

    Raises:
      UsageError: there is no such command, or it is not installed.
    """
    name, *args = argv[1:] or ["--help"]
    if name in _HELP:
        print(overview())
        return 0
    if name == "--version":
        print(f"seed_rl {seed_rl.__version__}")
        return 0
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean `seed_rl {near[0]}`?" if near else f"the commands are {', '.join(COMMANDS)}."
        raise UsageError(f"{name!r} is not a command; {hint}")
    try:
        module = importlib.import_module(_ELSEWHERE.get(name, f"seed_rl.commands.{name}"))
    except ModuleNotFoundError as error:
        if name not in _ELSEWHERE or error.name not in ("gcp", "gcp.submit"):
            raise
        raise UsageError(
            f"`seed_rl {name}` builds images from the sources; run it in a clone, from its top directory."
        ) from None
    return module.main([f"seed_rl {name}", *args])


def main() -> NoReturn:
    """Runs the command line of this process, and ends the process with the exit code."""
    run_main(run)


if __name__ == "__main__":
    main()
