"""What bounds runs in which acting and training take turns: synchronous ones, and rollouts."""

from seed_rl.diagnosis.evidence import Evidence
from seed_rl.diagnosis.words import percent, turn

# What takes at least this share of the time bounds the run.
_MOSTLY = 0.5


def synchronous(e: Evidence) -> str | None:
    """The parts of the time that acting, training and actors take."""
    if not e.settings.get("synchronous"):
        return None
    acting = max(0.0, e.training_waits - e.waiting)
    return (
        f"The order of --synchronous bounds this run: one thread waits for actors {percent(e.waiting)} of "
        f"the time, acts {percent(acting)} and trains {percent(1 - e.training_waits)}; leave out "
        "--synchronous, unless the run must be repeatable."
    )


def rollouts(e: Evidence) -> str | None:
    """The same where all environments wait for training."""
    if not e.has_rollouts:
        return None
    training, acting = 1 - e.training_waits, min(e.acting, e.training_waits)
    share = f"all environments wait while the learner trains, {percent(training)} of the time"
    if training >= _MOSTLY:
        fewer = f"lower --epochs={epochs}, " if (epochs := e.settings.get("epochs", 1)) > 1 else ""
        change = f"{fewer}use a smaller network, or --agent=appo, whose actors do not wait"
    elif acting >= _MOSTLY:
        change = "use a smaller network (--torso, --lstm_size), or an accelerator"
    else:
        change = f"let more actors play (--num_actors), since one turn takes {turn(e)}"
    return f"Rollouts bound this run: {share}, and inference takes {percent(acting)}; {change}."
