"""The launchers' checks of a run directory, and their messages about it, before anything starts."""

from pathlib import Path

from seed_rl.flags.command_line import CommandLine
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.launch.plan import Plan
from seed_rl.launch.presets import shortened
from seed_rl.messages import say
from seed_rl.runs.lock import check_free
from seed_rl.runs.record import check, run_identity


def name_preset(preset: Path | None) -> None:
    """Reports the preset that the flags start from, if there is one."""
    if preset:
        say(f"preset {shortened(preset)}; flags on the command line override it.")


def check_directory(line: CommandLine, logdir: Path) -> None:
    """Refuses a directory that belongs to another run, or that a learner is using (UsageError)."""
    mine = run_identity(line.environment, line.environment_config(), line.agent, line.agent_config())
    with usage_errors():
        check(str(logdir), mine)
        check_free(logdir)


def make_directory(plan: Plan) -> None:
    """Creates the run directory and reports its path.

    Raises:
      UsageError: it cannot be created.
    """
    try:
        plan.logdir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--logdir={plan.logdir} cannot be created ({error.strerror}).") from None
    others = len(plan.learners) - 1
    too = f" and of {others} learner{'s' if others > 1 else ''}" if others else ""
    say(f"run directory {plan.logdir}; the logs of the {len(plan.actors)} actors{too} are in it.")
