"""What is drawn, and the bookkeeping of trials and seeds, with outcomes but without runs."""

import math

import optuna
import pytest

from seed_rl.sweeps import journal, table
from seed_rl.sweeps.outcome import Outcome
from seed_rl.sweeps.space import Distribution, Space
from seed_rl.sweeps.study import Trials, draw, latest, make_pruner

FAILED = Outcome(3, last_line="out of luck")


def done(value):
    return Outcome(0, value, "mean_return", 1000, 10.0)


@pytest.fixture
def study(tmp_path):
    with journal.held(tmp_path, {}) as study:
        yield study


@pytest.fixture
def started(study, space):
    """Makes trials and has all of them drawn."""

    def make(trials, seeds):
        asked = Trials(study, trials, seeds)
        for number in range(1, trials + 1):
            asked.values(number, space, 1, "random")
        return asked

    return make


def test_values_are_inside_their_ranges_and_all_of_them_come_up(space):
    samples = [draw(space, 7, trial) for trial in range(1, 301)]
    columns = {name: [sample[name] for sample in samples] for name in space.parameters}
    assert all(0.5 <= value <= 2 for value in columns["clip_norm"])
    assert all(1e-5 <= value <= 1e-2 for value in columns["learning_rate"])
    assert (
        0.2 < sum(value < 1e-4 for value in columns["learning_rate"]) / 300 < 0.5
    )  # A third of the decades.
    assert set(columns["adam_epsilon"]) == {1e-7, 0.001, 1}
    assert set(columns["torso"]) == {"auto", "mlp"}
    assert set(columns["unroll_length"]) == set(range(3, 11))
    assert all(type(value) is int for value in columns["unroll_length"])


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_a_draw_depends_on_the_seed_and_the_number_only(space, sampler):
    drawn = [draw(space, seed, trial, sampler) for seed in (1, 2) for trial in (1, 2, 77)]
    assert [draw(space, seed, trial, sampler) for seed in (1, 2) for trial in (1, 2, 77)] == drawn
    assert len({tuple(values.items()) for values in drawn}) == 6


def test_values_come_back_from_the_journal_as_they_were_drawn(started, space, tmp_path):
    started(5, 1)
    trials = latest(journal.read(tmp_path, {}))
    assert {number: trial.params for number, trial in trials.items()} == {
        number: draw(space, 1, number) for number in range(1, 6)
    }


def test_tpe_finds_better_values_than_random_sampling():
    space = Space(None, "", "", None, {}, {"learning_rate": Distribution("log_uniform", (1e-6, 1.0))})

    def mean_of_last(sampler):
        study = optuna.create_study(direction="maximize")
        asked, values = Trials(study, 40, 1), []
        for number in range(1, 41):
            rate = asked.values(number, space, 1, sampler)["learning_rate"]
            values.append(-abs(math.log10(rate) + 3))
            asked.record(number, 1, done(values[-1]))
        return sum(values[-10:]) / 10

    assert mean_of_last("tpe") > mean_of_last("random") + 0.5


def test_a_trial_has_the_mean_of_its_seeds_once_all_have_ended(started, study):
    trials = started(2, 2)
    trials.record(1, 1, done(1.0))
    assert latest(study)[1].state.name == "RUNNING"
    assert trials.left() == [(1, 2), (2, 1), (2, 2)]
    trials.record(1, 2, done(4.0))
    assert (latest(study)[1].state.name, latest(study)[1].value) == ("COMPLETE", 2.5)
    trials.record(2, 1, FAILED)
    trials.record(2, 2, FAILED)
    assert latest(study)[2].state.name == "FAIL"
    assert (trials.left(), trials.left(retry_failed=True)) == ([], [(2, 1), (2, 2)])
    assert trials.failed() == 2


@pytest.mark.parametrize(
    ("ended", "seeds", "retry", "left"),
    [
        ({1: done(1.0)}, 1, False, []),
        ({1: done(1.0)}, 3, False, [2, 3]),
        ({1: FAILED}, 1, False, []),
        ({1: FAILED}, 1, True, [1]),
        ({1: FAILED}, 2, False, [2]),
        ({1: FAILED, 2: done(1.0)}, 2, True, [1]),
        ({1: FAILED, 2: done(1.0)}, 3, True, [1, 3]),
        ({2: FAILED}, 2, True, [1, 2]),  # Trained by two processes, and stopped before seed 1 had ended.
        ({1: done(1.0), 2: done(4.0)}, 1, False, []),
    ],
)
def test_more_seeds_and_failed_runs_reopen_a_trial(started, study, tmp_path, ended, seeds, retry, left):
    first = started(1, max(ended))
    for seed, outcome in ended.items():
        first.record(1, seed, outcome)
    before = latest(study)[1].params
    trials = Trials(study, 1, seeds)
    assert trials.left(retry) == [(1, seed) for seed in left]
    trials.reopen(retry)
    assert trials.left() == [(1, seed) for seed in left]
    trial = latest(journal.read(tmp_path, {}))[1]
    assert trial.params == before and trial.state.is_finished() == (not left)
    for seed in left:
        trials.record(1, seed, done(float(seed)))
    assert trials.left(retry) == [] and latest(study)[1].state.is_finished()
    kept = [found.final_return for seed, found in ended.items() if seed not in left and not found.failed]
    expected = [*kept, *map(float, left)]
    row = table.collect(study)[0]
    assert row["final_return"] == (pytest.approx(sum(expected) / len(expected)) if expected else None)


def test_a_trial_with_fewer_seeds_asked_for_is_ended(started, study):
    started(1, 3).record(1, 1, done(2.0))
    Trials(study, 1, 1).reopen(False)
    assert (latest(study)[1].state.name, latest(study)[1].value) == ("COMPLETE", 2.0)


def test_the_median_pruner_waits_for_five_trials_and_a_quarter_of_the_run(started, study):
    study.pruner = make_pruner("median", 1000)
    trials = started(7, 1)
    good = [(frames, 1.0) for frames in range(50, 1001, 50)]
    bad = [(frames, 0.0) for frames, _ in good]
    for number in range(1, 6):
        assert not trials.report(number, bad if number == 1 else good, 1000)
        trials.record(number, 1, done(1.0))
    assert not trials.report(6, bad[:4], 1000)
    assert trials.report(6, bad[:6], 1000)
    assert list(latest(study)[6].intermediate_values) == [50, 100, 150, 200, 250]
    assert not trials.report(7, good, 1000)


def test_returns_are_reported_at_twentieths_of_a_run_and_once(started, study):
    trials = started(1, 1)
    for curve in ([], [(30, 1.0)], [(30, 1.0), (120, 2.0)], [(30, 1.0), (120, 2.0), (1004, 3.0)]):
        assert not trials.report(1, curve, 1000)
    values = latest(study)[1].intermediate_values
    assert values == {50: 1.0, 100: 1.0, **dict.fromkeys(range(150, 1001, 50), 2.0)}


def test_importances_need_ten_trials_and_are_led_by_the_flag_that_matters(started, study, space):
    trials = started(20, 1)
    for number in range(1, 21):
        if number == 10:
            assert table.importances(study) == {}
        values = trials.peek(number, space, 1)
        trials.record(number, 1, done(math.log(values["learning_rate"])))
    shares = table.importances(study)
    assert set(shares) == set(space.parameters) and sum(shares.values()) == pytest.approx(1.0)
    assert max(shares, key=shares.__getitem__) == "learning_rate"
