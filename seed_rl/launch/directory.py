"""What the launchers say and check of a run directory before anything starts."""

from pathlib import Path

from seed_rl.flags.command_line import CommandLine
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.launch.plan import Plan
from seed_rl.launch.presets import shortened
from seed_rl.messages import say
from seed_rl.runs.lock import check_free
from seed_rl.runs.record import check, run_identity


def name_preset(preset: Path | None) -> None:
    """Says which preset the flags begin with."""
    if preset:
        say(f"preset {shortened(preset)}; flags on the command line win over it.")


def check_directory(line: CommandLine, logdir: Path) -> None:
    """Refuses a directory that belongs to another run, or that a learner is using (UsageError)."""
    mine = run_identity(line.environment, line.environment_config(), line.agent, line.agent_config())
    with usage_errors():
        check(str(logdir), mine)
        check_free(logdir)


def make_directory(plan: Plan) -> None:
    """Makes the run directory and names it.

    Raises:
      UsageError: it cannot be made.
    """
    try:
        plan.logdir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--logdir={plan.logdir} cannot be made a directory ({error.strerror}).") from None
    say(f"run directory {plan.logdir}; {len(plan.actors)} actors, whose logs are there.")
