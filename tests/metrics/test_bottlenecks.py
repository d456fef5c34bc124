"""Bottlenecks from made-up metrics, the cases right beside them, and reports of runs."""

import contextlib
import json
import re

import pytest

from seed_rl.commands import doctor
from seed_rl.flags.definitions import option_names
from seed_rl.flags.errors import UsageError
from seed_rl.launch.plan import LocalConfig
from seed_rl.metrics.bottlenecks import Shares, diagnose, medians, report, table, watch
from seed_rl.metrics.curves import periods_so_far
from seed_rl.runs import lock, record
from seed_rl.runs.layout import RunDirectory
from tests.plotting.synthetic import make_record, write_run

# Everything waits a little: nothing bounds it.
METRICS = {
    "inference_waiting_share": 0.45,
    "inference_blocked_share": 0.05,
    "inference_batch_size": 60.0,
    "inference_latency_p50_ms": 2.0,
    "actor_turn_ms": 6.0,
    "training_waiting_share": 0.05,
    "prefetch_waiting_share": 0.05,
    "learner_cpu_cores": 2.0,
    "machine_cores": 16.0,
    "machine_cpu_cores": 7.0,
    "actor_processes": 4.0,
    "actor_cpu_cores": 3.8,
}
REPLAY = {"intake_waiting_share": 0.6}

# Inference works most of the time, and training waits.
ACTING = {
    "inference_waiting_share": 0.05,
    "inference_blocked_share": 0.0,
    "training_waiting_share": 0.6,
    "prefetch_waiting_share": 0.6,
}
STEPPING = {**ACTING, "inference_waiting_share": 0.85}
TURNS = {**ACTING, "inference_waiting_share": 0.55, "inference_latency_p50_ms": 5.0}
BEHIND = {"inference_blocked_share": 0.4, "training_waiting_share": 0.02}
IN_TURN = {"inference_blocked_share": 0.4, "training_waiting_share": 0.3}
ROLLOUTS = {"agent": "ppo", "rollout_unrolls": 16.0}
SMALL = {**ACTING, "inference_batch_size": 20.0, "inference_latency_p50_ms": 7.0}
# All cores are busy: with this run alone, and because of other programs.
FULL = {"machine_cores": 6.0, "machine_cpu_cores": 6.0}
CROWDED = {"machine_cpu_cores": 15.9}
# A container that may use a part of the machine, where the use of all is unknown.
PART = {"machine_cores": 6.0, "machine_cpu_cores": None}


def shares(agent="vtrace", learner=None, settings=None, **metrics):
    run = make_record(agent=agent, learner={"num_envs": 256, **(learner or {})}, **(settings or {}))
    base = METRICS | (REPLAY if agent == "r2d2" else {})
    known = {name: value for name, value in {**base, **metrics}.items() if value is not None}
    return Shares(known, settings_of(run))


# The metrics, the names of the findings, and flags or values that are named.
KINDS = [
    ({}, "balanced", ["--num_actors"]),
    (BEHIND, "training", ["--training_devices", "--batch_size"]),
    (BEHIND | {"inference_blocked_share": 0.09}, "balanced", []),
    (BEHIND | {"settings": {"passes": 3}}, "training", ["lower --passes=3"]),
    (BEHIND | {"agent": "r2d2"}, "replay_ratio", ["lower --replay_ratio=0.75"]),
    (BEHIND | {"agent": "r2d2", "inference_blocked_share": 0.09}, "balanced", []),
    (IN_TURN, "queue", ["--queue_capacity above 32"]),
    (IN_TURN | {"inference_blocked_share": 0.19}, "preparing", []),
    (IN_TURN | {"agent": "r2d2"}, "intake", ["--replay_compression=none"]),
    (IN_TURN | {"agent": "r2d2", "training_waiting_share": 0.1}, "replay_ratio", []),
    # Transitions, for which there is no intake.
    (
        IN_TURN | {"agent": "r2d2", "intake_waiting_share": None, "prefetch_waiting_share": 0.3},
        "balanced",
        [],
    ),
    ({"hosts_waiting_share": 0.45, "training_waiting_share": 0.1}, "hosts", ["--num_learners"]),
    ({"hosts_waiting_share": 0.19}, "balanced", []),
    (ACTING | {"prefetch_waiting_share": 0.1}, "preparing", ["--batch_size"]),
    (ACTING | {"prefetch_waiting_share": 0.41}, "inference", []),
    (ACTING, "inference", ["--inference_batch_size=64", "60", "--inference_devices"]),
    (ACTING | {"training_waiting_share": 0.19, "prefetch_waiting_share": 0.19}, "balanced", []),
    (STEPPING, "actors", ["add actors (--num_actors)"]),
    (STEPPING | {"inference_waiting_share": 0.49, "inference_latency_p50_ms": 1.0}, "inference", []),
    (STEPPING | {"training_waiting_share": 0.19, "prefetch_waiting_share": 0.19}, "balanced", []),
    (STEPPING | {"inference_latency_p50_ms": 9.0}, "stragglers", ["lower --inference_batch_size=64"]),
    (STEPPING | {"inference_latency_p50_ms": 5.9}, "actors", []),
    (STEPPING | FULL, "actors_elsewhere", ["--server_address"]),
    (TURNS, "turns", ["--num_env_groups=2"]),
    (TURNS | {"inference_waiting_share": 0.71}, "actors", []),
    (TURNS | {"inference_latency_p50_ms": 1.0}, "actors", []),
    (ROLLOUTS | {"training_waiting_share": 0.3}, "rollouts", ["lower --epochs=4", "--agent=appo"]),
    (ROLLOUTS | IN_TURN | {"agent": "a2c"}, "rollouts", ["it: use a smaller network", "--agent=appo"]),
    (ROLLOUTS | IN_TURN | {"training_waiting_share": 0.6, "prefetch_waiting_share": 0.6}, "turns", []),
    (ROLLOUTS | ACTING, "inference", []),
    (ROLLOUTS | STEPPING, "actors", ["--num_actors"]),
    ({"learner": {"synchronous": True}, **SMALL}, "synchronous", ["leave it out"]),
    (FULL, "machine", ["--server_address"]),
    ({"machine_cpu_cores": 14.3}, "balanced", []),
    (PART, "machine", []),
    (PART | {"machine_cores": 7.0}, "balanced", []),
    # Other programs come before what they may be the reason for.
    (CROWDED, "other_programs", ["stop them"]),
    (ACTING | CROWDED, "other_programs inference", []),
    # 4.7 of 16 cores are few, and so are 9 of 16 while others are free.
    (ACTING | CROWDED | {"actor_cpu_cores": 9.2}, "inference", []),
    (ACTING | {"machine_cpu_cores": 14.0}, "inference", []),
    (SMALL, "inference small_batches", ["20 of 64", "--num_env_groups=2"]),
    (SMALL | {"inference_batch_size": 33.0}, "inference", []),
    (SMALL | {"inference_latency_p50_ms": 5.9}, "inference", []),
    (SMALL | {"inference_blocked_share": 0.11}, "inference", []),
    (SMALL | {"inference_waiting_share": 0.5}, "stragglers", []),
]


@pytest.mark.parametrize(("given", "names", "words"), KINDS)
def test_findings_follow_from_metrics_and_name_flags_that_exist(given, names, words):
    found = diagnose(shares(**given))
    assert " ".join(found) == names
    run = make_record(agent=given.get("agent", "vtrace"))
    there = {*run.learner_settings, *run.agent_settings, "server_address", "agent", "num_env_groups"}
    there |= option_names(LocalConfig)
    for name, sentence in found.items():
        flags = re.findall(r"--(\w+)", sentence)
        assert set(flags) <= there and sentence.endswith(".")
        assert flags or name == "other_programs"
    for word in words:
        assert word in " ".join(found.values())


def test_the_table_has_the_shares_of_all_stages_and_the_cores():
    lines = table(shares(agent="r2d2", hosts_waiting_share=0.1, **CROWDED))
    assert [line.split()[:2] for line in lines] == [
        ["stage", "waits"],
        ["training", "15%"],
        ["inference", "50%"],
        ["actors", "25%"],
        ["prefetch", "5%"],
        ["replay", "60%"],
        ["cores", "16"],
    ]
    text = "\n".join(lines)
    for words in ("hosts 10%", "requests 45%, training 5%", "2.0 ms", "6.0 ms", "learner 2.0, actors 3.8"):
        assert words in text
    assert lines[-1].endswith("10.1")


def test_metrics_that_a_run_does_not_have_are_left_out_of_the_table():
    unknown = dict.fromkeys(
        ("actor_turn_ms", "prefetch_waiting_share", "actor_cpu_cores", "machine_cpu_cores")
    )
    lines = table(shares(**unknown))
    assert [line.split()[0] for line in lines] == ["stage", "training", "inference", "cores"]
    assert "hosts" not in "".join(lines) and lines[-1].endswith("learner 2.0")


def period(number, waiting=0.85, **metrics):
    """The metrics of period `number` of a run whose actors are slow."""
    return {
        "env_frames": 1000 * number,
        "updates": 20 * number,
        "seconds": 10.0 * number,
        "frames_per_second": 100.0,
        "inference_waiting_share": waiting,
        "inference_blocked_share": 0.0,
        "training_waiting_share": 0.9,
        "inference_latency_p50_ms": 1.0,
        "actor_turn_ms": 10.0,
        **metrics,
    }


@pytest.fixture
def run(tmp_path):
    """The record of a run without metrics."""
    return record.read(str(write_run(tmp_path / "run", metrics=False)))


def reported(run):
    return report(run.logdir, settings_of(run), periods_so_far(run.logdir))


def settings_of(run):
    return {**run.learner_settings, **run.agent_settings}


def add(run, *periods):
    with open(RunDirectory(run.logdir).metrics, "a") as file:
        file.writelines(json.dumps(each) + "\n" for each in periods)


def test_metrics_are_medians_of_the_periods_that_have_them():
    metrics = medians([period(1), period(2), period(3, waiting=0.0, passing=3.0)])
    assert (metrics["inference_waiting_share"], metrics["passing"]) == (0.85, 3.0)


def test_a_report_is_of_the_last_ten_periods(run):
    add(run, *(period(n, waiting=0.1) for n in range(1, 10)), *(period(n) for n in range(10, 17)))
    head, *stages, finding = reported(run)
    assert head == f"{run.logdir}: 100 frames/s and 2.0 updates/s in the last 10 periods."
    assert [line.split()[0] for line in stages] == ["stage", "training", "inference", "actors"]
    assert "85%" in stages[2]
    assert finding.startswith("The actors bound this run")


def test_too_few_periods_are_not_judged(run):
    assert "(0 of 3 periods)" in "".join(reported(run))
    add(run, {"env_frames": 5, "seconds": 1.0}, period(1), period(2))
    (line,) = reported(run)
    assert "(2 of 3 periods); try again when the run has trained for 30 s" in line
    add(run, period(3))
    assert len(reported(run)) > 1


def test_live_reports_on_each_period_and_ends_with_the_run(run):
    said = []
    with contextlib.ExitStack() as training:
        training.enter_context(lock.held(run.logdir))
        numbers = iter(range(1, 8))

        def sleep(seconds):
            """Another period passes, except for the fourth; after the seventh, training ends."""
            if (number := next(numbers, None)) is None:
                training.close()
            elif number != 4:  # Nothing is printed without new metrics.
                add(run, period(number))

        watch(run.logdir, settings_of(run), lambda: lock.holder(run.logdir) is not None, said.append, sleep)
    assert [len(lines) for lines in said[:3]] == [1, 1, 1]  # Of no period, one and two: too few.
    assert len(said) == 9  # Of 0 to 6 periods; the last once more when it ends; and that it has ended.
    assert all("in the last 3 periods" in lines[0] for lines in said[3:8])
    assert said[-1] == ["No learner trains in this directory now."]


def refused(*args):
    with pytest.raises(UsageError) as caught:
        doctor.main(["doctor", *map(str, args)])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_command_prints_the_report(run, capsys):
    add(run, *(period(n) for n in range(1, 6)))
    assert doctor.main(["doctor", str(run.logdir)]) == 0
    assert capsys.readouterr().out.splitlines() == reported(run)
    assert doctor.main(["doctor", str(run.logdir), "--live"]) == 0  # Nobody trains: once is enough.
    assert capsys.readouterr().out.splitlines()[-1] == "No learner trains in this directory now."


def test_what_is_no_run_is_refused(tmp_path):
    assert "contains no run.json, so it is not a run directory" in refused(tmp_path)
    assert "is not a directory" in refused(tmp_path / "nowhere")
    assert refused().startswith("No run is given")
    assert "is one too many" in refused(tmp_path, tmp_path)
    assert "--life" in refused(tmp_path, "--life")
