"""Finding and reading runs, which of them belong together, and what tells the groups apart."""

import pytest

from seed_rl.algorithms import registry as algorithms
from seed_rl.flags.flagfile import configs_directory
from seed_rl.launch.plan import resolve_run
from seed_rl.plotting.groups import (
    GameTask,
    by_task,
    gather,
    method_name,
    metric_label,
    plumbing,
    task_labels,
    variant_labels,
    with_counts,
)
from seed_rl.runs.layout import find_runs
from tests.plotting.synthetic import make_curve, make_groups, make_record, write_run


def grouped(*records, metrics=None):
    curve = make_curve([1, 2], [3, 4])
    return make_groups(*((record, curve) for record in records), metrics=metrics)


def labels(*records, given=None, metrics=None):
    """The labels in the order of the runs."""
    groups = grouped(*records, metrics=metrics)
    return list(with_counts(variant_labels(groups, given), groups).values())


def seeded(name, seed, **settings):
    return make_record(name, learner={"seed": seed}, **settings)


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


PLUMBING = {"seed": 2, "num_envs": 64, "server_address": "unix:/x", "log_period_secs": 1.0}
MANY = {"discounting": 0.9, "lstm_size": 7, "torso": "nature", "lambda_": 0.5, "entropy_cost": 0.5}
V_TRACE = "V-trace, entropy cost {}, learning rate {}".format


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([seeded("a", 1), make_record("b", learner=PLUMBING), seeded("c", 3)], ["V-trace (3 runs)"]),
        ([seeded("a", 1), seeded("b", 1)], ["V-trace (2 runs)"]),
        ([seeded("a", 1), seeded("b", 2), seeded("c", 1, agent="ppo")], ["V-trace (2 runs)", "PPO"]),
        ([seeded("a", 1), seeded("b", 2), seeded("c", 1, game="Qbert")], ["V-trace (1 to 2 runs)"]),
        # Settings that differ only between games or between methods name nothing.
        (
            [
                rate(r, game=game, agent=a)
                for r, game in ((1e-3, "Pong"), (1e-4, "Qbert"))
                for a in ("vtrace", "r2d2")
            ],
            ["V-trace", "R2D2"],
        ),
        (
            [rate(r, entropy_cost=cost) for cost, r in ((0.01, 1e-3), (0.01, 1e-4), (0.02, 1e-4))],
            [V_TRACE(0.01, 0.001), V_TRACE(0.01, 0.0001), V_TRACE(0.02, 0.0001)],
        ),
        (
            [make_record(normalize_advantages=is_on, torso="nature") for is_on in (True, False)],
            ["V-trace, normalize advantages", "V-trace, no normalize advantages"],
        ),
        (
            [make_record(target_entropy=None), make_record(target_entropy=0.5)],
            ["V-trace, target entropy none", "V-trace, target entropy 0.5"],
        ),
        # Numbers are rounded; a directory tells apart what that makes alike.
        (
            [rate(0.000123456), rate(0.00098765)],
            ["V-trace, learning rate 0.000123", "V-trace, learning rate 0.000988"],
        ),
        (
            [rate(0.000123456, name="a"), rate(0.000123457, name="b")],
            ["V-trace, learning rate 0.000123 (a)", "V-trace, learning rate 0.000123 (b)"],
        ),
    ],
)
def test_labels(records, expected):
    assert labels(*records) == expected


def test_of_many_settings_that_differ_three_are_named():
    found = labels(make_record(agent="ppo"), make_record(), rate(0.5, **MANY))
    assert found[0] == "PPO"
    for label in found[1:]:
        assert label.count(",") == 4 and label.endswith(", …")
        assert "torso" in label and "learning rate" in label


ONE_DIFFERS = {"torso": "shallow", "discounting": 0.8, "lstm_size": 9, "entropy_cost": 0.6}


@pytest.mark.parametrize(
    ("records", "has_directories"),
    [
        # Only the setting that sounds least important differs between these.
        ([make_record(), *(rate(0.5, **{**MANY, "lstm_size": size}) for size in range(1, 9))], False),
        (
            [
                make_record(name, **{**MANY, **({name: ONE_DIFFERS[name]} if name in ONE_DIFFERS else {})})
                for name in ("base", *ONE_DIFFERS)
            ],
            True,
        ),
    ],
)
def test_three_settings_tell_variants_apart_or_a_directory_does(records, has_directories):
    found = labels(*records)
    assert len(set(found)) == len(records) and all(label.count(",") <= 4 for label in found)
    assert any(label.endswith(")") for label in found) == has_directories


def test_names_from_the_user_go_by_the_order_of_the_runs():
    found = variant_labels(grouped(rate(0.9), rate(0.1), make_record(agent="ppo")), "High, Low,Other")
    assert list(found.values()) == ["High", "Low", "Other"]
    rates = [dict(variant.settings).get("learning_rate") for variant in found]
    assert rates == ["0.9", "0.1", None]


@pytest.mark.parametrize("given", ["", "A", "A,B,C", "A,", "A,A"])
def test_names_that_do_not_fit_are_refused_with_those_to_replace(given):
    with pytest.raises(ValueError, match=r"give 2 different names.*V-trace; PPO") as caught:
        labels(make_record(), make_record(agent="ppo"), given=given)
    assert "\n" not in str(caught.value)


def test_games_are_in_alphabetical_order_and_those_of_one_name_have_their_environment():
    groups = grouped(make_record(game="Qbert"), make_record(game="asterix"), make_record(game="Pong"))
    assert [str(task) for task in by_task(groups)] == ["asterix", "Pong", "Qbert"]
    tasks = [GameTask("atari", "Pong"), GameTask("gym", "Pong"), GameTask("catch", None)]
    assert list(task_labels(tasks).values()) == ["atari Pong", "gym Pong", "catch"]


def test_labels_say_who_is_measured_in_evaluation_where_not_all_are():
    records = [make_record(), make_record(agent="r2d2")]
    evaluated = {"r2d2": "mean_evaluation_return"}
    assert labels(*records, metrics=evaluated) == ["V-trace", "R2D2, in evaluation"]
    assert labels(*records, metrics={**evaluated, "vtrace": "mean_evaluation_return"}) == ["V-trace", "R2D2"]


@pytest.mark.parametrize(
    ("metrics", "label"),
    [
        (["mean_evaluation_return"], "mean evaluation return"),
        (["mean_return", "mean_evaluation_return"], "mean return"),
        (["inference_latency_p50_ms"], "inference latency p50 ms"),
    ],
)
def test_metrics(metrics, label):
    agents = dict(zip(("vtrace", "ppo"), metrics, strict=False))
    assert metric_label(grouped(*(make_record(agent=a) for a in agents), metrics=agents)) == label


PRESETS = {
    "paper/others/atari_rainbow": "Rainbow",
    "small/atari_rainbow_pong": "ε-Rainbow",
    "paper/others/atari_dqn": "DQN",
    "paper/accelerated_methods/atari_dqn_epsilon_rainbow": "ε-Rainbow",
    "small/catch_vtrace": "V-trace",
}


@pytest.mark.parametrize(("preset", "name"), PRESETS.items())
def test_names_of_presets(preset, name):
    line = resolve_run(["train", f"--flagfile={configs_directory() / preset}.flags"])
    assert method_name(make_record(agent=line.agent, **line.agent_config().to_dict())) == name


def test_every_agent_has_a_name_and_one_of_another_package_keeps_its_own():
    names = {agent: method_name(make_record(agent=agent)) for agent in algorithms.names()}
    assert len(set(names.values())) == len(names)
    assert method_name(make_record(agent="their_agent")) == "their_agent"


def refused(*paths, **options):
    with pytest.raises(ValueError) as caught:
        gather(paths, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Four runs at different depths."""
    path = tmp_path_factory.mktemp("sweep")
    write_run(path / "trial_000" / "seed_1", seed=1)
    write_run(path / "trial_000" / "seed_2", seed=2)
    write_run(path / "trial_001", agent="r2d2", evaluation=True)
    write_run(path / "a" / "b" / "c", seed=3)
    write_run(path / "a" / "b" / "d" / "too_deep", seed=4)
    return path


def names(runs, path):
    return [str(run.relative_to(path)) for run in runs]


def drawn(found):
    return sorted(run.record.logdir.name for group in found.groups for run in group.runs)


def test_a_directory_of_runs_means_all_runs_in_it(sweep):
    expected = ["a/b/c", "trial_000/seed_1", "trial_000/seed_2", "trial_001"]
    found = find_runs([sweep])
    assert names(found, sweep) == expected and set(found.values()) == {str(sweep)}
    found = find_runs([str(sweep / "trial_001"), sweep])
    assert names(found, sweep) == ["trial_001", *expected[:3]]
    assert list(found.values()) == ["", *[str(sweep)] * 3]


def test_the_source_of_a_trial_is_its_sweep_whatever_is_named(tmp_path):
    trial = write_run(tmp_path / "sweep" / "trial_001" / "seed_1", metrics=False).parent
    write_run(tmp_path / "other" / "trial_001" / "seed_1", metrics=False)
    (tmp_path / "sweep" / "journal.log").write_text("")
    sources = {str(tmp_path / "sweep"), str(tmp_path)}
    assert set(find_runs([tmp_path]).values()) == sources
    for path in (trial, trial / "seed_1"):
        assert list(find_runs([path]).values()) == [str(tmp_path / "sweep")]


def test_a_group_has_the_return_in_evaluation_if_all_of_its_runs_have_it(sweep, tmp_path):
    for seed in (1, 2):
        write_run(tmp_path / str(seed), seed=seed, agent="ppo", evaluation=seed == 1)
    groups, skipped = gather([sweep, tmp_path])
    assert skipped == []
    found = {(g.variant.method, len(g.runs)): g.metric for g in groups}
    in_training = {("V-trace", 3): "mean_return", ("PPO", 2): "mean_return"}
    assert found == in_training | {("R2D2", 1): "mean_evaluation_return"}


def test_another_metric(sweep):
    groups, _ = gather([sweep], metric="entropy")
    run = groups[0].runs[0]
    assert (groups[0].metric, len(run.curve.value)) == ("entropy", 60)
    assert run.curve.value[0] == pytest.approx(1.8 - 1 / 60)
    found = gather([sweep], metric="mean_evaluation_return")
    assert drawn(found) == ["trial_001"]
    assert len(found.skipped) == 3 and all("mean_evaluation_return" in text for text in found.skipped)
    there = "entropy, inference_latency_p50_ms, mean_evaluation_return, mean_return, updates"
    text = refused(sweep, metric="entrophy")
    assert text.startswith("--metric=entrophy") and f"choose one of: {there}." in text


def aborted(path):
    """Runs that cannot be drawn, each for a reason of its own."""
    runs = [
        write_run(path / "fresh", periods=1),
        write_run(path / "silent", metrics=False),
        write_run(path / "empty", metrics=False),
        write_run(path / "broken"),
        write_run(path / "wrong"),
    ]
    (path / "empty" / "metrics.jsonl").write_text("")
    (path / "broken" / "run.json").write_text('{"identity": ')
    (path / "wrong" / "run.json").write_text("[]")
    return runs


def test_runs_that_cannot_be_drawn_are_skipped_by_name_or_refused(tmp_path):
    bad = aborted(tmp_path)
    assert str(len(bad)) in refused(tmp_path)
    for run in bad:
        assert str(run) in refused(run)
    write_run(tmp_path / "full")
    found = gather([tmp_path])
    assert drawn(found) == ["full"]
    for run in bad:
        assert sum(str(run) in reason for reason in found.skipped) == 1
    assert len(found.skipped) == len(bad)
