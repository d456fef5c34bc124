"""Trains on this machine with one command: a learner and its actors, stopped and resumed with Ctrl-C.

Imports no TensorFlow; the learner process does.
"""

import contextlib
from pathlib import Path

from seed_rl.flags.errors import UsageError, run_main, usage_errors
from seed_rl.launch.child import ONE_THREAD, Child
from seed_rl.launch.config import LocalConfig
from seed_rl.launch.plan import Plan, complete_arguments, make_plan, parse_local, private_server_address
from seed_rl.launch.supervisor import Supervisor, say
from seed_rl.runs.record import check, identity

DESCRIPTION = """
Trains on this machine: one learner and its actor processes.

Examples:
  python -m seed_rl.local_main catch vtrace
  python -m seed_rl.local_main atari vtrace 2 24 --game=Breakout --total_environment_frames=20000000

The form is [environment] [agent] [actors] [environments per actor] [--flags].
Without arguments it trains Pong with V-trace on the preset for a small machine. Ctrl-C stops it
with a checkpoint; the same command again goes on from there. Flags win over the preset.
"""

_ACTOR_ENV = {**ONE_THREAD, "PYTHONUNBUFFERED": "1"}


def main(argv: list[str]) -> int:
    """Runs the launcher; returns its exit code."""
    args, preset = complete_arguments(argv[1:])
    line = parse_local([argv[0], *args], DESCRIPTION)
    with contextlib.ExitStack() as stack:
        address = line.read(LocalConfig).server_address or stack.enter_context(private_server_address())
        plan = make_plan(line, address)
        if preset:
            say(f"preset {_shortest(preset)}; flags on the command line win over it.")
        mine = identity(line.environment, line.environment_config(), line.agent, line.agent_config())
        with usage_errors():
            check(str(plan.logdir), mine)
        return _run(plan)


def _run(plan: Plan) -> int:
    try:
        plan.logdir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--logdir={plan.logdir} cannot be made a directory ({error.strerror}).") from None
    say(f"run directory {plan.logdir}; {len(plan.actors)} actors, whose logs are there.")
    actors = [
        Child(f"actor {task}", command, plan.logdir / f"actor_{task}.log", _ACTOR_ENV)
        for task, command in enumerate(plan.actors)
    ]
    return Supervisor(Child("the learner", plan.learner), actors).run()


def _shortest(path: Path) -> Path:
    """The path from the current directory where it is below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


if __name__ == "__main__":
    run_main(main)
