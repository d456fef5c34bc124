"""Which runs belong together, and what tells the groups apart."""

import pytest

from seed_rl.algorithms import registry as algorithms
from seed_rl.plotting.groups import Group, Run, Task, by_task, group_records, plumbing
from seed_rl.plotting.labels import (
    group_labels,
    metric_label,
    task_labels,
    variant_labels,
)
from tests.plotting.synthetic import make_curve, make_record


def grouped(*records, metrics=None):
    """Groups of these records; `metrics` by agent."""
    curve = make_curve([1, 2], [3, 4])
    return [
        Group(task, variant, tuple(Run(r, (metrics or {}).get(r.agent, "mean_return"), curve) for r in alike))
        for (task, variant), alike in group_records(records).items()
    ]


def test_seeds_are_one_group_whatever_the_plumbing():
    plumbing = {"seed": 2, "num_envs": 64, "server_address": "unix:/x", "log_period_secs": 1.0}
    groups = grouped(make_record("a"), make_record("b", learner=plumbing), make_record("c"))
    assert [[run.record.logdir for run in group.runs] for group in groups] == [["a", "b", "c"]]
    assert group_labels(groups) == ["vtrace (3 runs)"]


def test_plumbing_is_where_a_run_trains_and_nothing_that_it_learns_with():
    assert {"seed", "logdir", "num_envs"} <= plumbing("vtrace") < plumbing("r2d2")
    assert plumbing("r2d2") - plumbing("vtrace") == {
        "checkpoint_replay",
        "replay_compression",
        "replay_max_bytes",
        "replay_threads",
    }
    assert not plumbing("vtrace") & {"learning_rate", "batch_size", "total_environment_frames", "synchronous"}
    assert plumbing("of a package that is gone") == plumbing("vtrace")


def test_games_and_agents_are_groups_and_need_no_settings_in_their_labels():
    records = [
        make_record(game=game, agent=agent, learner={"learning_rate": rate})
        for game, rate in (("Pong", 1e-3), ("Breakout", 1e-4))
        for agent in ("vtrace", "r2d2")
    ]
    groups = grouped(*records)
    assert group_labels(groups) == ["Pong: vtrace", "Pong: r2d2", "Breakout: vtrace", "Breakout: r2d2"]
    assert list(variant_labels(groups).values()) == ["r2d2", "vtrace"]
    assert [str(task) for task in by_task(groups)] == ["Breakout", "Pong"]


def test_labels_name_the_settings_that_differ_and_no_others():
    groups = grouped(
        make_record(entropy_cost=0.01, learner={"learning_rate": 1e-3, "seed": 1}),
        make_record(entropy_cost=0.01, learner={"learning_rate": 1e-4, "seed": 2}),
        make_record(entropy_cost=0.02, learner={"learning_rate": 1e-4, "seed": 3}),
        make_record(agent="r2d2", learner={"learning_rate": 5e-4}),
    )
    assert group_labels(groups) == [
        "vtrace, entropy_cost=0.01, learning_rate=0.001",
        "vtrace, entropy_cost=0.01, learning_rate=0.0001",
        "vtrace, entropy_cost=0.02, learning_rate=0.0001",
        "r2d2",
    ]
    assert group_labels(groups[1:]) == ["vtrace, entropy_cost=0.01", "vtrace, entropy_cost=0.02", "r2d2"]


def test_values_are_written_as_flags_are():
    groups = grouped(
        make_record(target_entropy=None, normalize_advantages=True, torso="nature"),
        make_record(target_entropy=0.5, normalize_advantages=False, torso="shallow"),
    )
    assert group_labels(groups) == [
        "vtrace, normalize_advantages=true, target_entropy=none, torso=nature",
        "vtrace, normalize_advantages=false, target_entropy=0.5, torso=shallow",
    ]


def test_numbers_are_rounded_unless_that_makes_them_alike():
    def labels(*rates):
        return group_labels(grouped(*(make_record(learner={"learning_rate": rate}) for rate in rates)))

    assert labels(0.000123456, 0.00098765) == [
        "vtrace, learning_rate=0.000123",
        "vtrace, learning_rate=0.000988",
    ]
    assert labels(0.000123456, 0.000123457) == [
        "vtrace, learning_rate=0.000123456",
        "vtrace, learning_rate=0.000123457",
    ]


def test_a_setting_that_is_new_since_a_run_counts_as_its_default():
    default = algorithms.config_class("vtrace")().queue.passes
    assert len(grouped(make_record("old"), make_record("new", passes=default))) == 1
    assert len(grouped(make_record("old"), make_record("new", passes=default + 1))) == 2


def test_games_of_one_name_are_told_apart_by_their_environment():
    tasks = [Task("atari", "Pong"), Task("gym", "Pong"), Task("catch", None)]
    assert list(task_labels(tasks).values()) == ["atari Pong", "gym Pong", "catch"]


def test_labels_say_who_is_measured_in_evaluation_where_not_all_are():
    records = [make_record(), make_record(agent="r2d2")]
    evaluated = {"r2d2": "mean_evaluation_return"}
    assert group_labels(grouped(*records, metrics=evaluated)) == ["vtrace", "r2d2, in evaluation"]
    both = {**evaluated, "vtrace": "mean_evaluation_return"}
    assert group_labels(grouped(*records, metrics=both)) == ["vtrace", "r2d2"]


@pytest.mark.parametrize(
    ("metrics", "label"),
    [
        (["mean_return"], "mean return"),
        (["mean_evaluation_return"], "mean return in evaluation"),
        (["mean_return", "mean_evaluation_return"], "mean return"),
        (["inference_latency_p50_ms"], "inference latency p50 (ms)"),
        (["learner_memory_mib"], "learner memory (MiB)"),
        (["updates"], "updates"),
        (["frames_per_second"], "frames per second"),
    ],
)
def test_metrics(metrics, label):
    assert metric_label(metrics) == label
