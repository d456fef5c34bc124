"""Each kind of bound, on figures that were made up for it, and the cases right beside it."""

import re

import pytest

from seed_rl.diagnosis.evidence import Evidence
from seed_rl.diagnosis.findings import Finding, diagnose
from seed_rl.flags.definitions import option_names
from seed_rl.launch.config import LocalConfig
from tests.plotting.synthetic import make_record

# Everything waits a little: nothing bounds it.
FIGURES = {
    "inference_waiting_share": 0.45,
    "inference_blocked_share": 0.05,
    "inference_batch_size": 60.0,
    "inference_latency_p50_ms": 2.0,
    "actor_turn_ms": 6.0,
    "queue_depth": 3.0,
    "training_waiting_share": 0.05,
    "prefetch_waiting_share": 0.05,
    "learner_cpu_cores": 2.0,
    "machine_cores": 16.0,
    "machine_cpu_cores": 7.0,
    "actor_processes": 4.0,
    "actor_cpu_cores": 3.8,
}
REPLAY = {"replay_ratio": 1.5, "intake_waiting_share": 0.6}

# Inference works most of the time, and training waits.
ACTING = {
    "inference_waiting_share": 0.05,
    "inference_blocked_share": 0.0,
    "training_waiting_share": 0.6,
    "prefetch_waiting_share": 0.6,
}
STEPPING = {**ACTING, "inference_waiting_share": 0.85}
# All cores are busy: with this run alone, and because of other programs.
FULL = {"machine_cores": 6.0, "machine_cpu_cores": 6.0}
CROWDED = {"machine_cpu_cores": 15.9}


def found(agent="vtrace", learner=None, settings=None, **figures) -> list[Finding]:
    run = make_record(agent=agent, learner={"num_envs": 256, **(learner or {})}, **(settings or {}))
    base = FIGURES | (REPLAY if agent == "r2d2" else {})
    known = {name: value for name, value in {**base, **figures}.items() if value is not None}
    return diagnose(Evidence(known, {**run.learner_settings, **run.agent_settings}))


def bound(*args, **kwargs) -> Finding:
    return found(*args, **kwargs)[0]


def names(*args, **kwargs) -> list[str]:
    return [finding.name for finding in found(*args, **kwargs)]


# The name of the first finding, what makes it, and the words that its sentence must contain.
KINDS = [
    ("balanced", {}, ["Nothing bounds", "45%", "5%", "--num_actors"]),
    (
        "training",
        {"inference_blocked_share": 0.4, "training_waiting_share": 0.02, "queue_depth": 32.0},
        ["blocked 40%", "32 of 32 unrolls", "2%", "--training_devices", "--lstm_size", "--batch_size"],
    ),
    (
        "replay_ratio",
        {"agent": "r2d2", "inference_blocked_share": 0.4, "training_waiting_share": 0.02},
        ["blocked 40%", "1.50 times", "lower --replay_ratio=0.75"],
    ),
    (
        "intake",
        {
            "agent": "r2d2",
            "inference_blocked_share": 0.4,
            "training_waiting_share": 0.5,
            "intake_waiting_share": 0.04,
        },
        ["works 96%", "blocked 40%", "waits 50%", "--replay_compression=none"],
    ),
    (
        "balanced",  # Transitions, for which there is no intake.
        {
            "agent": "r2d2",
            "inference_blocked_share": 0.4,
            "training_waiting_share": 0.5,
            "prefetch_waiting_share": 0.5,
            "intake_waiting_share": None,
        },
        ["Nothing bounds", "40%", "50%"],
    ),
    (
        "queue",
        {"inference_blocked_share": 0.4, "training_waiting_share": 0.3},
        ["blocked 40%", "30%", "--queue_capacity above 32"],
    ),
    (
        "hosts",
        {"hosts_waiting_share": 0.45, "training_waiting_share": 0.1},
        ["45%", "--num_actors", "--num_learners"],
    ),
    (
        "prefetch",
        {"training_waiting_share": 0.5, "prefetch_waiting_share": 0.1},
        ["50%", "at least 40%", "--batch_size"],
    ),
    (
        "interpreter",
        {"inference_waiting_share": 0.1, "learner_cpu_cores": 1.04},
        ["10%", "1.0 cores", "--env_batch_size", "--num_gateways=0", "--num_learners"],
    ),
    (
        "stragglers",
        {**STEPPING, "inference_latency_p50_ms": 9.0},
        ["85%", "9.0 ms", "6.0 ms", "lower --inference_batch_size=64", "--num_env_groups=2"],
    ),
    (
        "turns",
        {**ACTING, "inference_waiting_share": 0.5, "inference_latency_p50_ms": 5.0},
        ["50%", "45%", "--num_env_groups=2"],
    ),
    (
        "actors",
        STEPPING,
        ["85%", "6.0 ms", "2.0 ms", "4 processes use 3.8 cores", "add actors (--num_actors)"],
    ),
    ("inference", ACTING, ["95%", "60%", "60 of 64", "raise --inference_batch_size", "--inference_devices"]),
    ("machine", FULL, ["6 cores", "learner uses 2.0", "actors 3.8", "all else 0.2", "--server_address"]),
    ("other_programs", CROWDED, ["16 cores", "they use 10.1", "learner 2.0", "actors 3.8", "stop them"]),
    (
        "rollouts",  # Of four passes each.
        {"agent": "ppo", "rollout_unrolls": 16.0, "training_waiting_share": 0.3},
        ["70%", "lower --epochs=4", "--agent=appo"],
    ),
    (
        "rollouts",
        {"agent": "a2c", "rollout_unrolls": 16.0, "training_waiting_share": 0.3},
        ["70%", "trains, 70% of the time", "; use a smaller network, or --agent=appo"],
    ),
    (
        "rollouts",
        {"agent": "ppo", "rollout_unrolls": 16.0, **ACTING},
        ["40%", "inference takes 60%", "accelerator"],
    ),
    (
        "rollouts",
        {"agent": "ppo", "rollout_unrolls": 16.0, **STEPPING},
        ["40%", "inference takes 15%", "--num_actors", "6.0 ms"],
    ),
    (
        "synchronous",
        {
            "learner": {"synchronous": True},
            "inference_waiting_share": 0.3,
            "inference_blocked_share": 0.0,
            "training_waiting_share": 0.8,
            "prefetch_waiting_share": None,
        },
        ["waits for actors 30%", "acts 50%", "trains 20%", "leave out --synchronous"],
    ),
]


@pytest.mark.parametrize(("name", "given", "words"), KINDS, ids=[kind[0] for kind in KINDS])
def test_what_bounds_a_run_is_said_with_its_figures_and_flags_that_exist(name, given, words):
    first, *others = found(**given)
    assert first.name == name and first.sentence.endswith(".")
    for word in words:
        assert word in first.sentence
    run = make_record(agent=given.get("agent", "vtrace"))
    there = {*run.learner_settings, *run.agent_settings, "server_address", "agent", "num_env_groups"}
    there |= option_names(LocalConfig)
    for finding in (first, *others):
        flags = re.findall(r"--(\w+)", finding.sentence)
        assert set(flags) <= there
        assert flags or finding.name == "other_programs"


# Beside each kind: the figures with one of them just on the other side.
BESIDE = [
    ("training", {"inference_blocked_share": 0.09, "training_waiting_share": 0.02}, "balanced"),
    ("training", {"inference_blocked_share": 0.4, "training_waiting_share": 0.21}, "queue"),
    ("queue", {**ACTING, "inference_blocked_share": 0.19}, "inference"),
    ("replay_ratio", {"agent": "r2d2", "inference_blocked_share": 0.09}, "balanced"),
    (
        "intake",
        {"agent": "r2d2", "inference_blocked_share": 0.4, "training_waiting_share": 0.1},
        "replay_ratio",
    ),
    ("hosts", {"hosts_waiting_share": 0.19}, "balanced"),
    ("prefetch", {**ACTING, "prefetch_waiting_share": 0.41}, "inference"),
    ("interpreter", {"inference_waiting_share": 0.1, "learner_cpu_cores": 1.4}, "balanced"),
    ("interpreter", {"inference_waiting_share": 0.1, "learner_cpu_cores": 0.6}, "balanced"),
    ("interpreter", {"inference_waiting_share": 0.21, "learner_cpu_cores": 1.0}, "balanced"),
    ("interpreter", {"inference_waiting_share": 0.1, "learner_cpu_cores": 1.0, **FULL}, "machine"),
    ("stragglers", {**STEPPING, "inference_latency_p50_ms": 5.9}, "actors"),
    ("turns", {**ACTING, "inference_waiting_share": 0.29, "inference_latency_p50_ms": 5.0}, "inference"),
    ("turns", {**ACTING, "inference_waiting_share": 0.71, "inference_latency_p50_ms": 5.0}, "actors"),
    ("turns", {**ACTING, "inference_waiting_share": 0.55, "inference_latency_p50_ms": 1.0}, "actors"),
    ("actors", {**STEPPING, "inference_waiting_share": 0.49, "inference_latency_p50_ms": 1.0}, "inference"),
    ("actors", {**STEPPING, "training_waiting_share": 0.19}, "balanced"),
    ("inference", {**ACTING, "training_waiting_share": 0.19}, "balanced"),
    ("machine", {"machine_cpu_cores": 14.3}, "balanced"),
]


@pytest.mark.parametrize(("name", "given", "instead"), BESIDE)
def test_what_is_just_beside_a_kind_is_another(name, given, instead):
    del name
    assert bound(**given).name == instead


def test_actors_that_use_no_cpu_wait_for_something_else():
    assert "something else than CPU" in bound(**STEPPING, actor_cpu_cores=2.7).sentence
    assert "something else" not in bound(**STEPPING, actor_cpu_cores=2.9).sentence
    _, full = found(**STEPPING, **CROWDED, actor_cpu_cores=1.1)
    assert full.name == "actors" and "something else" in full.sentence


def test_other_programs_come_before_what_they_may_be_the_reason_for():
    assert names(**ACTING, **CROWDED) == ["other_programs", "inference"]
    # 4.7 of 16 cores are few, and so are 9 of 16 while others are free.
    assert names(**ACTING, **CROWDED, actor_cpu_cores=9.2) == ["inference", "machine"]
    assert names(**ACTING, machine_cpu_cores=14.0) == ["inference"]


def test_actors_on_a_full_machine_go_to_others():
    said = found(**STEPPING, **FULL)
    assert [finding.name for finding in said] == ["actors", "machine"]
    assert "other machines (--server_address)" in said[0].sentence


def test_the_machine_is_full_by_the_runs_own_use_where_that_of_all_is_unknown():
    """In a container that may use a part of the machine."""
    part = {"machine_cpu_cores": None, "machine_cores": 6.0}
    (said,) = found(**part)
    assert said.name == "machine"
    assert "all else" not in said.sentence and "other programs" not in said.sentence
    assert bound(**part | {"machine_cores": 7.0}).name == "balanced"


def test_small_batches_are_said_while_actors_wait():
    small = {**ACTING, "inference_batch_size": 20.0, "inference_latency_p50_ms": 7.0}
    assert names(**small) == ["inference", "small_batches"]
    sentence = found(**small)[1].sentence
    for words in ("20 of 64", "54%", "--env_batch_size", "--num_env_groups"):
        assert words in sentence
    assert "bigger messages (--env_batch_size)" in found(**small)[0].sentence
    for change in (
        {"inference_batch_size": 33.0},
        {"inference_latency_p50_ms": 5.9},
        {"inference_blocked_share": 0.11},
        {"inference_waiting_share": 0.5},
    ):
        assert "small_batches" not in names(**small | change)


def test_training_that_replay_leaves_idle_is_said_besides():
    idle = {**STEPPING, "agent": "r2d2"}
    assert names(**idle) == ["actors", "idle_training"]
    assert "raise --replay_ratio=0.75" in found(**idle)[1].sentence
    assert names(**STEPPING) == ["actors"]  # A queue has no ratio.
    assert names(**idle, **FULL) == ["actors", "machine"]  # There, updates cost something.
    assert "idle_training" not in names(**idle | {"training_waiting_share": 0.19})


def test_passes_and_batches_that_are_as_large_as_can_be_are_named_only_where_they_apply():
    behind = {"inference_blocked_share": 0.4, "training_waiting_share": 0.02}
    assert "lower --passes=3" in bound(**behind, settings={"passes": 3}).sentence
    assert "--passes" not in bound(**behind).sentence
    few = bound(**ACTING, learner={"num_envs": 64}).sentence
    assert "raise --inference_batch_size" not in few and "--env_batch_size" in few
