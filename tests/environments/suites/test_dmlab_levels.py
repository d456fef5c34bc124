"""The levels of DMLab-30: which names are valid, and what is trained and tested on."""

from pathlib import Path

import pytest

from seed_rl.environments.suites import dmlab_levels
from seed_rl.environments.suites.dmlab import DmlabConfig
from seed_rl.runs import scores
from tests.environments.suites.dmlab_double import published_levels

PAPER_LEVELS = {
    "explore_goal_locations_small",
    "lasertag_three_opponents_small",
    "rooms_keys_doors_puzzle",
    "rooms_watermaze",
}


def test_the_tasks_are_those_that_scores_are_published_for():
    assert [dmlab_levels.level(task, held_out=True) for task in dmlab_levels.TASKS] == published_levels()
    assert len(set(dmlab_levels.TASKS)) == 30
    assert set(dmlab_levels.TASKS) >= PAPER_LEVELS
    for task in dmlab_levels.TASKS:
        assert scores.published_scores("dmlab", dmlab_levels.level(task, held_out=True)) is not None


@pytest.mark.parametrize("prefix", ["", "contributed/dmlab30/"])
@pytest.mark.parametrize("ending", ["", "_train", "_test"])
@pytest.mark.parametrize("pair", ["rooms_collect_good_objects", "rooms_exploit_deferred_effects"])
def test_any_name_of_a_pair_trains_on_one_and_is_evaluated_on_the_other(pair, ending, prefix):
    config = DmlabConfig(game=prefix + pair + ending)
    assert config.level == f"contributed/dmlab30/{pair}_train"
    assert config.for_evaluation().level == f"contributed/dmlab30/{pair}_test"


@pytest.mark.parametrize("task", dmlab_levels.TASKS[2:])
def test_other_levels_are_one_and_the_same(task):
    for game in (task, f"contributed/dmlab30/{task}"):
        config = DmlabConfig(game=game)
        assert config.level == config.for_evaluation().level == f"contributed/dmlab30/{task}"


@pytest.mark.parametrize(
    ("game", "message"),
    [
        (
            "rooms_watermaz",
            r"^--game=rooms_watermaz is not a level of DMLab-30; the nearest are: rooms_watermaze",
        ),
        ("contributed/dmlab30/rooms_watermaz", r"the nearest are: rooms_watermaze"),
        ("rooms_watermaze_test", r"the nearest are: rooms_watermaze"),
        ("rooms_collect_good_objects_train_test", r"the nearest are: rooms_collect_good_objects"),
        ("Pong", r"^--game=Pong is not a level of DMLab-30; docs/dmlab.md lists them\.$"),
    ],
)
def test_unknown_levels_name_the_nearest(game, message):
    with pytest.raises(ValueError, match=message):
        DmlabConfig(game=game)


def test_all_levels_are_in_the_docs():
    text = (Path(__file__).parents[3] / "docs" / "dmlab.md").read_text(encoding="utf-8")
    assert [task for task in dmlab_levels.TASKS if task not in text] == []
