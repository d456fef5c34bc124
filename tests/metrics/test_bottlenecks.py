"""Bottlenecks from made-up metrics, the cases right beside them, and reports of runs."""

import json
import re

import pytest

from seed_rl.commands import doctor
from seed_rl.flags.definitions import option_names
from seed_rl.launch.plan import LocalConfig
from seed_rl.metrics.bottlenecks import findings, table
from seed_rl.runs.layout import RunDirectory
from tests.plotting.synthetic import make_record, write_run

# Everything waits a little: nothing bounds it.
METRICS = {
    "inference_waiting_share": 0.45,
    "inference_blocked_share": 0.05,
    "inference_latency_p50_ms": 2.0,
    "actor_turn_ms": 12.0,
    "training_waiting_share": 0.05,
    "prefetch_waiting_share": 0.05,
    "learner_cpu_cores": 2.0,
    "machine_cores": 16.0,
    "machine_cpu_cores": 7.0,
    "actor_processes": 4.0,
    "actor_cpu_cores": 3.8,
}

# Inference works most of the time, and training waits.
ACTING = {"inference_waiting_share": 0.05, "inference_blocked_share": 0.0, "training_waiting_share": 0.6}
STEPPING = {**ACTING, "inference_waiting_share": 0.85}
TURNS = {**ACTING, "inference_waiting_share": 0.55, "inference_latency_p50_ms": 5.0}
BEHIND = {"inference_blocked_share": 0.4, "training_waiting_share": 0.02}
IN_TURN = {"inference_blocked_share": 0.4, "training_waiting_share": 0.3}
ROLLOUTS = {"agent": "ppo", "rollout_unrolls": 16.0}
# All cores are busy: with this run alone, and because of other programs.
FULL = {"machine_cores": 6.0, "machine_cpu_cores": 6.0}
CROWDED = {"machine_cpu_cores": 15.9}
# A container that may use a part of the machine, where the use of all is unknown.
PART = {"machine_cores": 6.0, "machine_cpu_cores": None}

# The metrics, the names of the findings, and a word of them.
KINDS = [
    ({}, "nothing", "--num_actors"),
    (BEHIND, "training", "--training_devices"),
    (BEHIND | {"inference_blocked_share": 0.09}, "nothing", ""),
    (BEHIND | {"agent": "r2d2"}, "replay ratio", "lower --replay_ratio"),
    (BEHIND | {"agent": "r2d2", "inference_blocked_share": 0.09}, "nothing", ""),
    (IN_TURN, "queue", "--queue_capacity"),
    (IN_TURN | {"inference_blocked_share": 0.19}, "actors", ""),
    (IN_TURN | {"agent": "r2d2"}, "nothing", ""),
    (IN_TURN | {"agent": "r2d2", "training_waiting_share": 0.1}, "replay ratio", ""),
    ({"hosts_waiting_share": 0.45, "training_waiting_share": 0.1}, "hosts", "--num_learners"),
    ({"hosts_waiting_share": 0.19}, "nothing", ""),
    (ACTING, "inference", "--inference_devices"),
    (ACTING | {"training_waiting_share": 0.19}, "nothing", ""),
    (STEPPING, "actors", "add actors (--num_actors)"),
    (STEPPING | {"inference_waiting_share": 0.49, "inference_latency_p50_ms": 1.0}, "inference", ""),
    (STEPPING | {"training_waiting_share": 0.19}, "nothing", ""),
    (STEPPING | FULL, "actors", "--server_address"),
    (TURNS, "turns", "--num_env_groups=2"),
    (TURNS | {"inference_waiting_share": 0.71}, "actors", ""),
    (TURNS | {"inference_latency_p50_ms": 1.0}, "actors", ""),
    (ROLLOUTS | {"training_waiting_share": 0.3}, "rollouts", "--agent=appo"),
    (ROLLOUTS | IN_TURN | {"agent": "a2c"}, "rollouts", ""),
    (ROLLOUTS | TURNS | {"inference_waiting_share": 0.33, "inference_blocked_share": 0.4}, "turns", ""),
    (ROLLOUTS | ACTING, "inference", ""),
    (ROLLOUTS | STEPPING, "actors", ""),
    ({"learner": {"synchronous": True}, **ACTING}, "synchronous", "leave it out"),
    (FULL, "machine", "--server_address"),
    ({"machine_cpu_cores": 14.3}, "nothing", ""),
    (PART, "machine", ""),
    (PART | {"machine_cores": 7.0}, "nothing", ""),
    # Other programs come before what they may be the reason for.
    (ACTING | CROWDED, "others inference", "stop them"),
    # 4.7 of 16 cores are few, and so are 9 of 16 while others are free.
    (ACTING | CROWDED | {"actor_cpu_cores": 9.2}, "inference", ""),
    (ACTING | {"machine_cpu_cores": 14.0}, "inference", ""),
]


def without_none(metrics):
    return {name: value for name, value in metrics.items() if value is not None}


@pytest.mark.parametrize(("given", "names", "word"), KINDS)
def test_findings_follow_from_metrics_and_name_flags_that_exist(given, names, word):
    given = dict(given)
    run = make_record(agent=given.pop("agent", "vtrace"), learner=given.pop("learner", None))
    settings = {**run.learner_settings, **run.agent_settings}
    found = findings(without_none(METRICS | given), settings)
    assert " ".join(found) == names and word in " ".join(found.values())
    there = {*settings, "server_address", "agent", "num_env_groups"} | option_names(LocalConfig)
    for sentence in found.values():
        assert set(re.findall(r"--(\w+)", sentence)) <= there and sentence.endswith(".")


def test_the_table_has_the_shares_of_all_stages_and_the_cores():
    lines = table(METRICS | CROWDED | {"hosts_waiting_share": 0.1, "intake_waiting_share": 0.6})
    assert [line.split()[:2] for line in lines] == [
        ["stage", "waits"],
        ["training", "15%"],
        ["inference", "50%"],
        ["actors", "14%"],
        ["prefetch", "5%"],
        ["replay", "60%"],
        ["cores", "16"],
    ]
    text = "\n".join(lines)
    for words in ("hosts 10%", "requests 45%, training 5%", "2.0 ms", "12.0 ms", "learner 2.0, actors 3.8"):
        assert words in text
    assert lines[-1].endswith("10.1")


def test_metrics_that_a_run_does_not_have_are_left_out_of_the_table():
    unknown = ("actor_turn_ms", "prefetch_waiting_share", "actor_cpu_cores", "machine_cpu_cores")
    lines = table(without_none(METRICS | dict.fromkeys(unknown)))
    assert [line.split()[0] for line in lines] == ["stage", "training", "inference", "cores"]
    assert "hosts" not in "".join(lines) and lines[-1].endswith("learner 2.0")


def period(number, waiting=0.85):
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
    }


@pytest.fixture
def run(tmp_path):
    """The directory of a run without metrics."""
    return write_run(tmp_path / "run", metrics=False)


@pytest.fixture
def reported(capsys):
    """Runs the command; returns the lines that it has printed."""

    def lines(*args):
        assert doctor.main(["doctor", *map(str, args)]) == 0
        return capsys.readouterr().out.splitlines()

    return lines


def add(run, *periods):
    with open(RunDirectory(run).metrics, "a") as file:
        file.writelines(json.dumps(each) + "\n" for each in periods)


def test_a_report_is_of_the_medians_of_the_last_ten_periods(run, reported):
    add(run, *(period(n, waiting=0.1) for n in range(1, 12)), *(period(n) for n in range(12, 18)))
    head, *stages, finding = reported(run)
    assert head == f"{run}: 100 frames/s and 2.0 updates/s in the last 10 periods."
    assert [line.split()[0] for line in stages] == ["stage", "training", "inference", "actors"]
    assert "85%" in stages[2]
    assert finding.startswith("The actors bound this run")


def test_too_few_periods_are_not_judged(run, reported):
    assert "(0 of 3 periods)" in "".join(reported(run))
    add(run, {"env_frames": 5, "seconds": 1.0}, period(1), period(2))
    (line,) = reported(run)
    assert "(2 of 3 periods); try again when the run has trained for 30 s" in line
    add(run, period(3))
    assert len(reported(run)) > 1
