"""Which runs belong together, and what tells the groups apart."""

import pytest

from seed_rl.algorithms import registry as algorithms
from seed_rl.flags.configs import configs_directory
from seed_rl.launch.plan import parse_local
from seed_rl.plotting.groups import Group, Run, Task, by_task, group_records, method_name, plumbing
from seed_rl.plotting.labels import metric_label, task_labels, variant_labels, with_counts
from tests.plotting.synthetic import make_curve, make_record


def grouped(*records, metrics=None):
    """Groups of these records; `metrics` by agent."""
    curve = make_curve([1, 2], [3, 4])
    return [
        Group(task, variant, tuple(Run(r, (metrics or {}).get(r.agent, "mean_return"), curve) for r in alike))
        for (task, variant), alike in group_records(records).items()
    ]


def labels(*records, given=None, metrics=None):
    """The labels in the order of the legend."""
    groups = grouped(*records, metrics=metrics)
    return list(with_counts(variant_labels(groups, given), groups).values())


def seeded(name, seed, **settings):
    return make_record(name, learner={"seed": seed}, **settings)


def test_seeds_are_one_group_whatever_the_plumbing():
    plumbing = {"seed": 2, "num_envs": 64, "server_address": "unix:/x", "log_period_secs": 1.0}
    groups = grouped(seeded("a", 1), make_record("b", learner=plumbing), seeded("c", 3))
    assert [[run.record.logdir for run in group.runs] for group in groups] == [["a", "b", "c"]]


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


def rate(value, **settings):
    return make_record(learner={"learning_rate": value}, **settings)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([seeded("a", 1), seeded("b", 2), seeded("c", 3)], ["V-trace (3 seeds)"]),
        ([seeded("a", 1), seeded("b", 1)], ["V-trace (2 runs)"]),
        (
            [seeded("a", 1), seeded("b", 2), seeded("c", 1, agent="ppo")],
            ["PPO (1 seed)", "V-trace (2 seeds)"],
        ),
        (
            [seeded("a", 1), seeded("b", 2), seeded("c", 1, game="Qbert")],
            ["V-trace (1 to 2 seeds)"],
        ),
        # Settings that differ only between games or between methods name nothing.
        (
            [
                rate(1e-3),
                rate(1e-3, agent="r2d2"),
                rate(1e-4, game="Qbert"),
                rate(1e-4, game="Qbert", agent="r2d2"),
            ],
            ["R2D2", "V-trace"],
        ),
        (
            [rate(1e-3, entropy_cost=0.01), rate(1e-4, entropy_cost=0.01), rate(1e-4, entropy_cost=0.02)],
            [
                "V-trace, entropy cost 0.01, learning rate 0.0001",
                "V-trace, entropy cost 0.01, learning rate 0.001",
                "V-trace, entropy cost 0.02, learning rate 0.0001",
            ],
        ),
        (
            [
                make_record(normalize_advantages=True, torso="nature"),
                make_record(normalize_advantages=False, torso="shallow"),
            ],
            [
                "V-trace, no normalize advantages, torso shallow",
                "V-trace, normalize advantages, torso nature",
            ],
        ),
        (
            [make_record(target_entropy=None), make_record(target_entropy=0.5)],
            ["V-trace, target entropy none", "V-trace, target entropy 0.5"],
        ),
        # Numbers are rounded unless that makes them alike.
        (
            [rate(0.000123456), rate(0.00098765)],
            ["V-trace, learning rate 0.000123", "V-trace, learning rate 0.000988"],
        ),
        (
            [rate(0.000123456), rate(0.000123457)],
            ["V-trace, learning rate 0.000123456", "V-trace, learning rate 0.000123457"],
        ),
    ],
)
def test_labels(records, expected):
    assert labels(*records) == expected


MANY = {"discounting": 0.9, "lstm_size": 7, "torso": "nature", "lambda_": 0.5, "entropy_cost": 0.5}


def test_of_many_settings_that_differ_three_are_named():
    found = labels(make_record(), rate(0.5, **MANY), make_record(agent="ppo"))
    assert found[0] == "PPO"
    for label in found[1:]:
        assert label.count(",") == 4 and label.endswith(", …")
        assert "torso" in label and "learning rate" in label
    assert len(set(found)) == 3


def test_the_three_settings_tell_all_variants_apart():
    """Only the one that sounds least important differs between these."""
    records = [rate(0.5, **{**MANY, "lstm_size": size}) for size in range(1, 9)]
    found = labels(make_record(), *records)
    assert len(set(found)) == 9 and all(label.count(",") <= 4 for label in found)


def test_variants_that_three_settings_cannot_tell_apart_have_a_directory():
    base = {"torso": "nature", "discounting": 0.9, "lstm_size": 8, "entropy_cost": 0.5}
    other = {"torso": "shallow", "discounting": 0.8, "lstm_size": 9, "entropy_cost": 0.6}
    records = [make_record("base", **base)]
    records += [make_record(name, **{**base, name: value}) for name, value in other.items()]
    found = labels(*records)
    assert len(set(found)) == len(records)
    assert any(label.endswith(")") for label in found)


def test_names_from_the_user_go_by_the_order_of_the_runs():
    records = [rate(0.9), rate(0.1), make_record(agent="ppo")]
    groups = grouped(*records)
    assert list(variant_labels(groups, "High, Low,Other").values()) == ["High", "Low", "Other"]
    rates = [dict(variant.settings).get("learning_rate") for variant in variant_labels(groups, "A,B,C")]
    assert rates == ["0.9", "0.1", None]


@pytest.mark.parametrize("given", ["", "A", "A,B,C", "A,", "A,A"])
def test_names_that_do_not_fit_are_refused_with_those_to_replace(given):
    with pytest.raises(ValueError, match=r"give 2 different names.*V-trace; PPO") as caught:
        labels(make_record(), make_record(agent="ppo"), given=given)
    assert "\n" not in str(caught.value)


def test_a_setting_that_is_new_since_a_run_counts_as_its_default():
    default = algorithms.config_class("vtrace")().queue.passes
    assert len(grouped(make_record("old"), make_record("new", passes=default))) == 1
    assert len(grouped(make_record("old"), make_record("new", passes=default + 1))) == 2


def test_games_are_in_alphabetical_order():
    groups = grouped(make_record(game="Qbert"), make_record(game="asterix"), make_record(game="Pong"))
    assert [str(task) for task in by_task(groups)] == ["asterix", "Pong", "Qbert"]


def test_games_of_one_name_are_told_apart_by_their_environment():
    tasks = [Task("atari", "Pong"), Task("gym", "Pong"), Task("catch", None)]
    assert list(task_labels(tasks).values()) == ["atari Pong", "gym Pong", "catch"]


def test_labels_say_who_is_measured_in_evaluation_where_not_all_are():
    records = [make_record(), make_record(agent="r2d2")]
    evaluated = {"r2d2": "mean_evaluation_return"}
    assert labels(*records, metrics=evaluated) == ["R2D2, in evaluation", "V-trace"]
    assert labels(*records, metrics={**evaluated, "vtrace": "mean_evaluation_return"}) == ["R2D2", "V-trace"]


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
    agents = dict(zip(("vtrace", "ppo"), metrics, strict=False))
    assert metric_label(grouped(*(make_record(agent=a) for a in agents), metrics=agents)) == label


@pytest.mark.parametrize(
    ("preset", "name"),
    [
        ("paper/others/atari_rainbow", "Rainbow"),
        ("small/atari_rainbow_pong", "ε-Rainbow"),
        ("small/minatar_rainbow", "Rainbow"),
        ("paper/others/atari_btr", "BTR in part"),
        ("paper/others/atari_dqn", "DQN"),
        ("paper/accelerated_methods/atari_dqn_epsilon_rainbow", "ε-Rainbow"),
        ("small/minatar_dqn", "DQN"),
        ("small/catch_vtrace", "V-trace"),
    ],
)
def test_names_of_presets(preset, name):
    line = parse_local(["train", f"--flagfile={configs_directory() / preset}.flags"], "")
    assert method_name(make_record(agent=line.agent, **line.agent_config().to_dict())) == name


def test_every_agent_has_a_name_and_one_of_another_package_keeps_its_own():
    names = {agent: method_name(make_record(agent=agent)) for agent in algorithms.names()}
    assert len(set(names.values())) == len(names)
    assert method_name(make_record(agent="their_agent")) == "their_agent"
