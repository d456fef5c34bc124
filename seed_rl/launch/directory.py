"""Run directory of a launcher, and a launcher's messages before and after a run."""

import contextlib
import itertools
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from seed_rl.files import replacing, shortened
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.launch.plan import LocalConfig, Plan
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.messages import reason, say
from seed_rl.metrics.curves import periods_so_far
from seed_rl.metrics.progress import is_stage
from seed_rl.runs import record
from seed_rl.runs.layout import RunDirectory
from seed_rl.runs.lock import check_free

_TOTAL = "total_environment_frames"


def check_directory(plan: Plan) -> None:
    """Refuses a directory that belongs to another run, or that a learner is using (UsageError).

    A complete run must have been trained with the same settings.
    """
    logdir, settings, agent = str(plan.logdir), plan.settings, plan.settings.agent_config()
    environment = settings.environment_config()
    with usage_errors():
        record.check(logdir, record.run_identity(settings.environment, environment, settings.agent, agent))
        check_free(logdir)
        if not _is_complete(plan):
            return
        learner = settings.read(LearnerConfig)
        changed = record.changes(logdir, {"learner": learner.to_dict(), "agent": agent.to_dict()})
        if changed:
            raise ValueError(
                f"--logdir={logdir} has a complete run with other settings ({record.described(changed)}); "
                "use another --logdir, or its settings; in Python, overwrite=True starts over."
            )


def set_aside(logdir: Path) -> None:
    """Renames the directory of a run, if there is one, to the next free NAME.1, NAME.2, ..., and reports it.

    UsageError: a learner is using it, or it cannot be renamed.
    """
    if not RunDirectory(logdir).record.is_file():
        return
    with usage_errors():
        check_free(logdir)
    names = (logdir.with_name(f"{logdir.name}.{number}") for number in itertools.count(1))
    free = next(name for name in names if not os.path.lexists(name))
    try:
        logdir.rename(free)
    except OSError as error:
        raise UsageError(f"--logdir={logdir} cannot be renamed ({reason(error)}); choose another.") from None
    say(f"the run that was in {shortened(logdir)} is now in {shortened(free)}.")


def is_done(plan: Plan, argv: Sequence[str]) -> bool:
    """Whether there is nothing left to train, which is logged; `argv` is the launcher's command line."""
    if not _is_complete(plan):
        return False
    with usage_errors():
        total = record.read(str(plan.logdir)).learner_settings[_TOTAL]
    goal = f"{total:,} frames"
    if (stop_at_return := plan.settings.values["stop_at_return"]) is not None:
        goal += f" or a mean return of {stop_at_return:g}"
    say_next(plan, argv, f"{shortened(plan.logdir)} is already complete: {goal}", total)
    return True


def _is_complete(plan: Plan) -> bool:
    values = plan.settings.values
    return record.is_complete(plan.logdir, values[_TOTAL], values["stop_at_return"])


def introduce(plan: Plan) -> None:
    """Prints what is trained, on what, from which preset and where."""
    settings = plan.settings
    local, game = settings.read(LocalConfig), settings.values.get("game")
    if game is not None and game.startswith("pickle:"):
        game = "with environments of your function"
    task = " ".join(filter(None, (settings.environment, game)))
    learners = f"{len(plan.learners)} learners, " if len(plan.learners) > 1 else ""
    say(
        f"training {settings.agent} on {task}, {learners}{_count(len(plan.actors), 'actor')} of "
        f"{_count(local.env_batch_size, 'environment')}, {settings.values[_TOTAL]:,} frames."
    )
    source = f"preset {settings.preset}; " if settings.preset else ""
    say(f"{source}run directory {shortened(plan.logdir)}.")


@contextlib.contextmanager
def made_directory(plan: Plan, function: tuple[Path, bytes] | None = None) -> Iterator[None]:
    """Makes the run directory. If the run never begins, removes it again, unless it was there before.

    The settings of the processes go into their file, and a pickled function that makes the environments into
    its own, which only this user can read.

    A run has begun when its learner has written run.json. Logs of more than a line stay, and so does the
    directory; a single line has been quoted (`run.supervise`). UsageError: it cannot be made.
    """
    run = RunDirectory(plan.logdir)
    made = [path for path in (run.path, *run.path.parents) if not path.exists()]
    try:
        run.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--logdir={plan.logdir} cannot be created ({error.strerror}).") from None
    try:
        if function is not None:
            _write(*function, is_private=True)
        _write(run.settings, plan.settings.to_json().encode())
        yield
    finally:
        for path in (run.settings, *(function or ())[:1]) if not run.record.exists() else ():
            path.unlink(missing_ok=True)
        if made and not run.record.exists():
            logs = [run.actor_log(task) for task in range(len(plan.actors))]
            logs += [run.learner_log(index) for index in range(1, len(plan.learners))]
            with contextlib.suppress(OSError):  # A directory is not empty.
                for log in logs:
                    if log.exists() and _says_little(log):
                        log.unlink()
                for directory in made:
                    directory.rmdir()


def _says_little(log: Path) -> bool:
    """Whether a log has at most one line, such as an error that was shown, besides the stages of a start."""
    lines = log.read_text(errors="replace").splitlines()
    return len([line for line in lines if not is_stage(line)]) <= 1


def _write(path: Path, content: bytes, is_private: bool = False) -> None:
    try:
        with replacing(path) as file:
            if is_private:
                os.fchmod(file.fileno(), 0o600)
            file.write(content)
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({reason(error)}); choose another --logdir.") from None


def say_next(plan: Plan, argv: Sequence[str], what: str = "", frames: int = 0) -> None:
    """Prints the files of the run, and the commands to evaluate, plot and train further, in this order.

    `argv` is the launcher's command line; `frames` is for how many environment frames the run was trained, if
    other than planned.
    """
    what = what or f"the run is in {shortened(plan.logdir)}"
    logdir = shlex.quote(str(shortened(plan.logdir)))
    command = [argument for argument in argv[1:] if not argument.lstrip("-").startswith(f"{_TOTAL}=")]
    more = f"--{_TOTAL}={2 * (frames or plan.settings.values[_TOTAL])}"
    say(
        f"{what}. Next:",
        f"seed_rl evaluate {logdir}",
        f"seed_rl plot {logdir}",
        f"{argv[0]} {shlex.join([*command, more])}",
    )


def say_failures(plan: Plan) -> None:
    """Warns of the number of environment failures in the run that has ended, if any, with their logs."""
    periods = periods_so_far(plan.logdir)
    if count := int(periods[-1].get("environment_failures", 0)) if periods else 0:
        logs = shortened(RunDirectory(plan.logdir).path / "actor_*.log")
        say(f"environments failed {count:,} times; {logs} have the tracebacks.")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
