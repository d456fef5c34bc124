"""From figures to findings: what bounds a run, the figures that show it, and the flag to change.

Of actors, inference and training, the one that never waits bounds the others. So each finding is a condition
on the shares of time for which the others wait. Nothing here reads or writes.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from seed_rl.diagnosis.evidence import Evidence

# Shares of time: what waits for more than `_MUCH` has a reason, what waits for less than `_SOME` is busy.
_SOME, _MUCH, _MOSTLY = 0.1, 0.2, 0.5
# A batch of inference, as a share of the most environments that there may be in one.
_SMALL_BATCH, _FULL_BATCH = 0.5, 0.9
# What a learner whose Python code is always running uses, in cores: threads take turns.
_ONE_CORE = (0.7, 1.3)
# The cores that an actor which is always stepping environments keeps busy; the latter on a full machine.
_BUSY_ACTOR, _STARVED_ACTOR = 0.7, 0.3
# What other programs use, as a share of the machine's cores, if they are in the way.
_MUCH_ELSE = 0.3


def synchronous(e: Evidence) -> str | None:
    """The parts of the time that acting, training and actors take."""
    if not e.settings.get("synchronous"):
        return None
    acting = max(0.0, e.training_waits - e.waiting)
    return (
        f"The order of --synchronous bounds this run: one thread waits for actors {e.waiting:.0%} of "
        f"the time, acts {acting:.0%} and trains {1 - e.training_waits:.0%}; leave out "
        "--synchronous, unless the run must be repeatable."
    )


def rollouts(e: Evidence) -> str | None:
    """The same where all environments wait for training."""
    if not e.has_rollouts:
        return None
    training, acting = 1 - e.training_waits, min(e.acting, e.training_waits)
    share = f"all environments wait while the learner trains, {training:.0%} of the time"
    if training >= _MOSTLY:
        fewer = f"lower --epochs={epochs}, " if (epochs := e.settings.get("epochs", 1)) > 1 else ""
        change = f"{fewer}use a smaller network, or --agent=appo, whose actors do not wait"
    elif acting >= _MOSTLY:
        change = "use a smaller network (--torso, --lstm_size), or an accelerator"
    else:
        change = f"let more actors play (--num_actors), since one turn takes {turn(e)}"
    return f"Rollouts bound this run: {share}, and inference takes {acting:.0%}; {change}."


def turn(evidence: Evidence) -> str:
    """How long an actor takes."""
    return f"{evidence.figures.get('actor_turn_ms', 0.0):.1f} ms"


def answer(evidence: Evidence) -> str:
    """How long an answer takes."""
    return f"{evidence.figures.get('inference_latency_p50_ms', 0.0):.1f} ms"


def batch(evidence: Evidence) -> str:
    """How large a batch of inference is."""
    size = evidence.figures.get("inference_batch_size", 0.0)
    return f"{size:.0f} of {evidence.settings['inference_batch_size']}"


class Finding(NamedTuple):
    """One thing that was found.

    `name` identifies it: other_programs, actors, stragglers, turns, inference, small_batches, training,
    replay_ratio, queue, intake, prefetch, interpreter, synchronous, rollouts, hosts, machine, idle_training,
    balanced.
    `sentence` has the figures, and then the flag to change.
    """

    name: str
    sentence: str


# Looks for one kind of finding; None if it does not apply.
Rule = Callable[[Evidence], str | None]


def diagnose(evidence: Evidence) -> list[Finding]:
    """What bounds the run, and then what else costs speed.

    If other programs take much of the machine, that comes before all else: it slows every stage.
    """
    crowd = list(_apply({"other_programs": _other_programs}, evidence))
    bound = next(_apply(_BOUNDS, evidence), Finding("balanced", _balanced(evidence)))
    said = {bound.name, "machine"} if crowd else {bound.name}
    if crowd and bound.name == "machine":
        return crowd
    return [*crowd, bound, *(finding for finding in _apply(_OTHERS, evidence) if finding.name not in said)]


def _apply(rules: Mapping[str, Rule], evidence: Evidence) -> Iterator[Finding]:
    for name, rule in rules.items():
        if sentence := rule(evidence):
            yield Finding(name, sentence)


def _training(e: Evidence) -> str | None:
    if e.has_replay or not _training_is_behind(e):
        return None
    queue = f"{e.figures.get('queue_depth', 0.0):.0f} of {e.queue_capacity} unrolls"
    passes = e.settings.get("passes", 1)
    fewer = f"lower --passes={passes}, " if passes > 1 else ""
    return (
        f"Training bounds this run: inference is blocked {e.blocked:.0%} of the time by a full queue "
        f"({queue}), while training waits for a batch {e.training_waits:.0%}; {fewer}add "
        "--training_devices, use a smaller network (--torso, --lstm_size), or raise --batch_size."
    )


def _replay_ratio(e: Evidence) -> str | None:
    if not e.has_replay or not _training_is_behind(e):
        return None
    measured = e.figures.get("replay_ratio", 0.0)
    return (
        f"The replay ratio bounds this run: inference is blocked {e.blocked:.0%} of the time until "
        f"training has caught up (each unroll was drawn {measured:.2f} times), and training waits only "
        f"{e.training_waits:.0%}; lower --replay_ratio={e.settings['replay_ratio']:g}, or make updates "
        "faster: --training_devices, a smaller network."
    )


def _training_is_behind(e: Evidence) -> bool:
    return e.blocked >= _SOME and e.training_waits + e.hosts_wait < _MUCH


def _intake(e: Evidence) -> str | None:
    if not (e.has_intake and e.blocked >= _MUCH and e.training_waits >= _MUCH):
        return None
    less = "set --replay_compression=none, or " if e.settings.get("replay_compression") == "zstd" else ""
    return (
        f"Inserting into replay bounds this run: its thread works {e.inserting:.0%} of the time, "
        f"inference is blocked {e.blocked:.0%} and training waits {e.training_waits:.0%}; {less}"
        "split the environments over several learners (--num_learners)."
    )


def _queue(e: Evidence) -> str | None:
    if e.has_replay or not (e.blocked >= _MUCH and e.training_waits >= _MUCH):
        return None
    return (
        f"The short queue bounds this run: inference is blocked {e.blocked:.0%} of the time and "
        f"training waits {e.training_waits:.0%}, in turn; raise --queue_capacity above "
        f"{e.queue_capacity}."
    )


def _hosts(e: Evidence) -> str | None:
    if e.hosts_wait < _MUCH:
        return None
    return (
        f"Learner hosts wait for one another {e.hosts_wait:.0%} of the time before an update: give "
        "each the same devices and as many actors (--num_actors), or use fewer (--num_learners)."
    )


def _prefetch(e: Evidence) -> str | None:
    if e.preparing < _MUCH:
        return None
    cheaper = "set --replay_compression=none, or " if e.settings.get("replay_compression") == "zstd" else ""
    return (
        f"Preparing batches bounds this run: training waits {e.training_waits:.0%} of the time, of "
        f"which at least {e.preparing:.0%} for a batch that is drawn and copied to its device; "
        f"{cheaper}make batches smaller (--batch_size, --unroll_length)."
    )


def _interpreter(e: Evidence) -> str | None:
    cores = e.figures.get("learner_cpu_cores", 0.0)
    waits = e.waiting >= _MUCH or e.blocked >= _SOME or e.training_waits + e.hosts_wait >= _MUCH
    if waits or e.is_full or not _ONE_CORE[0] <= cores <= _ONE_CORE[1]:
        return None
    return (
        f"The learner's Python interpreter bounds this run: neither inference (waits {e.waiting:.0%}) "
        f"nor training ({e.training_waits:.0%}) waits, and yet the learner uses {cores:.1f} cores; "
        "give it fewer and bigger messages (--env_batch_size), let gateways serve actors on other machines "
        f"(--num_gateways={e.settings.get('num_gateways', 0)}), or split it (--num_learners)."
    )


def _stragglers(e: Evidence) -> str | None:
    if not (_acting_is_behind(e) and e.waiting >= _MOSTLY and e.actors_wait >= _MOSTLY):
        return None
    return (
        f"Batches that wait for the slowest actors bound this run: inference waits {e.waiting:.0%} of "
        f"the time, and yet an answer takes {answer(e)}, longer than a turn of an actor ({turn(e)}); lower "
        f"--inference_batch_size={e.settings['inference_batch_size']}, or set --num_env_groups=2."
    )


def _turns(e: Evidence) -> str | None:
    is_between = 1 - _MOSTLY - _MUCH <= e.waiting < _MOSTLY + _MUCH
    if not (_acting_is_behind(e) and is_between and e.actors_wait >= _MUCH) or e.is_full:
        return None
    return (
        f"Actors and inference bound this run by taking turns: inference waits for requests "
        f"{e.waiting:.0%} of the time, and actors for answers {e.actors_wait:.0%}; set "
        "--num_env_groups=2 (or more), so that one group acts while another one steps."
    )


def _actors(e: Evidence) -> str | None:
    if not (_acting_is_behind(e) and e.waiting >= _MOSTLY):
        return None
    return (
        f"The actors bound this run: inference waits for them {e.waiting:.0%} of the time (a turn of "
        f"an actor takes {turn(e)}, an answer {answer(e)}){_more_actors(e)}"
    )


def _more_actors(e: Evidence) -> str:
    """What helps if actors are too slow, after what their CPU use says."""
    used, processes = e.figures.get("actor_cpu_cores"), e.figures.get("actor_processes")
    if not used or not processes:
        if e.is_full:
            return "; all cores are busy: add actors on other machines (--server_address)."
        return "; add actors (--num_actors), or cores for them."
    use = "process uses" if processes == 1 else f"{processes:g} processes use"
    words = f", and their {use} {used:.1f} cores"
    if used < (_STARVED_ACTOR if e.is_full else _BUSY_ACTOR) * processes:
        return (
            f"{words}, so they mostly wait for something else than CPU; more actors (--num_actors) overlap "
            "these waits."
        )
    if e.is_full:
        return f"{words}, with all cores busy: add actors on other machines (--server_address), or cores."
    return f"{words}; add actors (--num_actors): cores are free."


def _inference(e: Evidence) -> str | None:
    if not (_acting_is_behind(e) and e.waiting < _MOSTLY):
        return None
    full = e.batch_share >= _FULL_BATCH and e.settings["num_envs"] > e.settings["inference_batch_size"]
    size = e.settings["inference_batch_size"]
    bigger = (
        f"raise --inference_batch_size={size}"
        if full
        else "give it fewer and bigger messages (--env_batch_size)"
    )
    return (
        f"Inference bounds this run: it acts {e.acting:.0%} of the time while training waits "
        f"{e.training_waits:.0%}; an answer takes {answer(e)} in batches of {batch(e)}; {bigger}, "
        "add --inference_devices, or with an accelerator --num_inference_threads."
    )


def _acting_is_behind(e: Evidence) -> bool:
    """Whether training waits for experience, and not for anything between."""
    return e.training_waits >= _MUCH and e.blocked < _MUCH


def _small_batches(e: Evidence) -> str | None:
    is_small = e.batch_share <= _SMALL_BATCH and not e.settings.get("synchronous")
    if not is_small or e.actors_wait < _MOSTLY or e.waiting >= _MOSTLY or e.blocked >= _SOME:
        return None
    return (
        f"Batches of inference are small: {batch(e)} environments, while actors wait for answers "
        f"{e.actors_wait:.0%} of the time; add environments (--env_batch_size), in --num_env_groups=2."
    )


def _idle_training(e: Evidence) -> str | None:
    if not (e.has_replay and e.training_waits >= _MUCH and e.blocked < _MUCH and e.preparing < _MUCH):
        return None
    if e.settings.get("synchronous") or e.is_full:
        return None
    return (
        f"The replay ratio leaves training idle {e.training_waits:.0%} of the time: more updates for "
        f"each frame cost nothing, if you want them; raise --replay_ratio={e.settings['replay_ratio']:g}."
    )


def _other_programs(e: Evidence) -> str | None:
    learner, actors = e.figures.get("learner_cpu_cores", 0.0), e.figures.get("actor_cpu_cores")
    if not e.is_full or actors is None or _all_else(e) < _MUCH_ELSE * e.figures["machine_cores"]:
        return None
    return (
        f"Other programs slow this run down: of {e.figures['machine_cores']:g} cores they use "
        f"{_all_else(e):.1f}, the learner {learner:.1f} and the actors {actors:.1f}; stop them, and look "
        "again before you change anything else."
    )


def _all_else(e: Evidence) -> float:
    """The cores that neither the learner nor its actors use."""
    figures = e.figures
    mine = figures.get("learner_cpu_cores", 0.0) + figures.get("actor_cpu_cores", 0.0)
    return max(0.0, figures.get("machine_cpu_cores", 0.0) - mine)


def _machine(e: Evidence) -> str | None:
    if not e.is_full:
        return None
    parts = [f"the learner uses {e.figures.get('learner_cpu_cores', 0.0):.1f}"]
    if "actor_cpu_cores" in e.figures:
        parts.append(f"the actors {e.figures['actor_cpu_cores']:.1f}")
    if "machine_cpu_cores" in e.figures:
        parts.append(f"all else {_all_else(e):.1f}")
    return (
        f"The machine is full: of {e.figures['machine_cores']:g} cores, {', '.join(parts)}; use a machine "
        "with more cores, or put actors on others (--server_address)."
    )


def _balanced(e: Evidence) -> str:
    return (
        f"Nothing bounds this run by itself: inference waits for requests {e.waiting:.0%} of the time "
        f"and is blocked {e.blocked:.0%}, training waits {e.training_waits:.0%}; to go faster, "
        "add actors (--num_actors) and --training_devices together."
    )


# What bounds a run, by name: the first that applies.
_BOUNDS: dict[str, Rule] = {
    "synchronous": synchronous,
    "rollouts": rollouts,
    "training": _training,
    "replay_ratio": _replay_ratio,
    "intake": _intake,
    "queue": _queue,
    "hosts": _hosts,
    "prefetch": _prefetch,
    "interpreter": _interpreter,
    "stragglers": _stragglers,
    "turns": _turns,
    "actors": _actors,
    "inference": _inference,
    "machine": _machine,
}

# What may be worth a change besides.
_OTHERS: dict[str, Rule] = {
    "machine": _machine,
    "small_batches": _small_batches,
    "hosts": _hosts,
    "idle_training": _idle_training,
}
