"""Trains on this machine with one command: a learner and its actors, in a run that can stop and resume.

Imports no TensorFlow; the learner process does.
"""

import contextlib
from pathlib import Path

from seed_rl.environments.making import Probed
from seed_rl.flags.errors import UsageError, require_package
from seed_rl.flags.resolve import Launching
from seed_rl.launch.child import ACTOR_ENV, LEARNER_ENV, Child
from seed_rl.launch.directory import (
    check_directory,
    introduce,
    is_done,
    made_directory,
    say_failures,
    say_next,
    set_aside,
)
from seed_rl.launch.plan import LocalConfig, make_plan, private_server_address, resolve_run
from seed_rl.launch.run import Recorder, supervise
from seed_rl.messages import REFUSED, say
from seed_rl.runs.layout import RunDirectory

DESCRIPTION = """
Trains on this machine: one learner, or several, and the actor processes.

Examples:
  seed_rl train catch vtrace
  seed_rl train atari vtrace 2 24 --game=Breakout --total_environment_frames=20000000

The form is [environment] [agent] [actors] [environments per actor] [--flags].
Without arguments it trains Pong with V-trace, using the preset for a small machine. Ctrl-C stops
it with a checkpoint; the same command resumes the run. Flags override the preset.
With --num_learners=2, gradients are added up over two learners; if one is lost, both start again
from the last checkpoint.
Exit codes: 0 when training is complete, 130 after Ctrl-C, 143 after SIGTERM (128 + N after signal
N, also SIGHUP, SIGUSR1 and SIGUSR2), 2 if a flag is wrong, 1 otherwise.
"""


def main(argv: list[str]) -> int:
    """Runs the launcher; returns its exit code."""
    return train(argv)[0]


def train(
    argv: list[str],
    function: tuple[Path, bytes] | None = None,
    probed: Probed | None = None,
    overwrite: bool = False,
) -> tuple[int, Path, str]:
    """Trains; returns the exit code, the run directory, and the sentence of a usage error of a child.

    Args:
      argv: the command line.
      function: the file that --game names, and its contents: a function that makes the environments.
      probed: facts about them, if they are known.
      overwrite: whether to rename the directory of an earlier run, and to start over.

    Raises:
      UsageError: the run cannot start with this command line.
    """
    notes: list[str] = []
    launching = Launching(tell=notes.append, probed=probed, resumes=not overwrite)
    settings = resolve_run(argv, DESCRIPTION, launching=launching)
    with contextlib.ExitStack() as stack:
        local = settings.read(LocalConfig)
        if local.record_every_minutes:
            require_package("imageio_ffmpeg", "record")
            if settings.environment_config().has_players:
                raise UsageError(
                    "--record_every_minutes makes videos of environments for one player only; leave it out."
                )
        private = private_server_address(local.num_learners)
        address = local.server_address or stack.enter_context(private)
        sockets = None if local.server_address else Path(address.removeprefix("unix:")).parent
        plan = make_plan(settings, address)
        if overwrite:
            set_aside(plan.logdir)
        check_directory(plan)
        if is_done(plan, argv):
            return 0, plan.logdir, ""
        for note in notes:
            say(note)
        introduce(plan)
        stack.enter_context(made_directory(plan, function))
        run, (first, *others) = RunDirectory(plan.logdir), plan.learners
        learners = [Child("learner 0" if others else "the learner", first, private=sockets, plays=True)]
        for i, command in enumerate(others, start=1):
            log = run.learner_log(i)
            learners.append(Child(f"learner {i}", command, log, LEARNER_ENV, sockets, plays=True))
        actors = [
            Child(f"actor {task}", command, run.actor_log(task), ACTOR_ENV, plays=True)
            for task, command in enumerate(plan.actors)
        ]
        if local.record_every_minutes:
            stack.callback(Recorder(plan.logdir, local.record_every_minutes).stop)
        code = supervise(learners, actors)
    say_failures(plan)
    if code == 0:
        say_next(plan, argv)
    refusals = (child.reported(REFUSED) for child in (*learners, *actors))
    return code, plan.logdir, next(filter(None, refusals), "")
