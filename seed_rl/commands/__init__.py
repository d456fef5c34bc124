"""The commands of `seed_rl`: one module each, whose `main` takes the arguments and returns the exit code."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

from seed_rl.flags.errors import UsageError

COMMANDS = {
    "train": "train on this machine: a learner and its actors with one command",
    "evaluate": "evaluate a trained agent: scores, JSON, a video",
    "tournament": "play runs of a game of several players against each other: scores",
    "serve": "serve trained policies to programs that attach, without training",
    "watch": "show a run and its policy at play in a browser, and play with it",
    "plot": "plot runs: learning curves over seeds, aggregates over games, sorted sweeps",
    "report": "print a table of runs, as Markdown or CSV",
    "export": "write a trained policy as a SavedModel or an ONNX model",
    "check": "play at random in an environment of yours: spaces, speed, errors",
    "list": "list environments and agents: which pairs can be trained here and now",
    "doctor": "say which stage is the bottleneck of a run, and which flag to change",
    "sweep": "search over hyperparameters on this machine",
    "cluster": "train on a Ray cluster: as train does, spread over its nodes",
    "submit": "submit a training job to Vertex AI on Google Cloud (in a clone)",
    "learner": "the learner alone, for actors on other machines",
    "actor": "one actor process, for a learner that runs elsewhere",
    "policy_actor": "one actor process that holds the policy (--inference=actor)",
    "gateway": "serve actors elsewhere for a learner, as its --num_gateways does",
    "vertex": "one container of a Vertex AI job, as submit starts it",
    "completion": "print how a shell completes these commands and their flags",
}


def main_of(name: str) -> Callable[[list[str]], int | None]:
    """The main of one of the `COMMANDS`.

    Raises:
      UsageError: it needs a clone, and this is none.
    """
    if name != "submit":
        return importlib.import_module(f"seed_rl.commands.{name}").main
    clone = Path(__file__).parents[2]
    if not (clone / "gcp" / "submit.py").is_file():
        raise UsageError("`seed_rl submit` builds images from the sources; install seed_rl from a clone.")
    sys.path.append(str(clone))
    return importlib.import_module("gcp.submit").main
