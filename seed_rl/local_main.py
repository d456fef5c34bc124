"""Trains on this machine with one command: a learner and its actors, in a run that can stop and resume.

Imports no TensorFlow; the learner process does.
"""

import contextlib

from seed_rl.flags.errors import run_main
from seed_rl.launch.child import ACTOR_ENV, Child
from seed_rl.launch.config import LocalConfig
from seed_rl.launch.directory import check_directory, make_directory, name_preset
from seed_rl.launch.plan import Plan, complete_arguments, make_plan, parse_local, private_server_address
from seed_rl.launch.supervisor import Supervisor
from seed_rl.runs.layout import RunDirectory

DESCRIPTION = """
Trains on this machine: one learner and its actor processes.

Examples:
  python -m seed_rl.local_main catch vtrace
  python -m seed_rl.local_main atari vtrace 2 24 --game=Breakout --total_environment_frames=20000000

The form is [environment] [agent] [actors] [environments per actor] [--flags].
Without arguments it trains Pong with V-trace, using the preset for a small machine. Ctrl-C stops
it with a checkpoint; the same command resumes the run. Flags override the preset.
Exit codes: 0 when training is complete, 130 after Ctrl-C, 143 after SIGTERM, 2 if a flag is wrong.
"""


def main(argv: list[str]) -> int:
    """Runs the launcher; returns its exit code."""
    args, preset = complete_arguments(argv[1:])
    line = parse_local([argv[0], *args], DESCRIPTION)
    with contextlib.ExitStack() as stack:
        address = line.read(LocalConfig).server_address or stack.enter_context(private_server_address())
        plan = make_plan(line, address)
        name_preset(preset)
        check_directory(line, plan.logdir)
        return _run(plan)


def _run(plan: Plan) -> int:
    make_directory(plan)
    run = RunDirectory(plan.logdir)
    actors = [
        Child(f"actor {task}", command, run.actor_log(task), ACTOR_ENV)
        for task, command in enumerate(plan.actors)
    ]
    return Supervisor(Child("the learner", plan.learner), actors).run()


if __name__ == "__main__":
    run_main(main)
