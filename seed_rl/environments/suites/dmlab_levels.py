"""The levels of DMLab-30: their names, and which are for training and which for the final test.

28 levels are used for both training and testing. Two come as a pair: the `_train` variant, and the `_test`
variant, which shows what the first one holds out. The set counts 30 tasks, so a pair is one task.
"""

from seed_rl.environments.base import hint

# Of the engine's name for a level.
PREFIX = "contributed/dmlab30/"

_PAIRS = ("rooms_collect_good_objects", "rooms_exploit_deferred_effects")

# In the published order; each pair is listed under the name that its variants share.
TASKS = (
    *_PAIRS,
    "rooms_select_nonmatching_object",
    "rooms_watermaze",
    "rooms_keys_doors_puzzle",
    "language_select_described_object",
    "language_select_located_object",
    "language_execute_random_task",
    "language_answer_quantitative_question",
    "lasertag_one_opponent_small",
    "lasertag_three_opponents_small",
    "lasertag_one_opponent_large",
    "lasertag_three_opponents_large",
    "natlab_fixed_large_map",
    "natlab_varying_map_regrowth",
    "natlab_varying_map_randomized",
    "skymaze_irreversible_path_hard",
    "skymaze_irreversible_path_varied",
    "psychlab_arbitrary_visuomotor_mapping",
    "psychlab_continuous_recognition",
    "psychlab_sequential_comparison",
    "psychlab_visual_search",
    "explore_object_locations_small",
    "explore_object_locations_large",
    "explore_obstructed_goals_small",
    "explore_obstructed_goals_large",
    "explore_goal_locations_small",
    "explore_goal_locations_large",
    "explore_object_rewards_few",
    "explore_object_rewards_many",
)


def level(game: str, held_out: bool) -> str:
    """The name of a level, without the prefix.

    Args:
      game: a task or a level, with or without the prefix `contributed/dmlab30/`; for a pair, any name.
      held_out: whether it is the level that DMLab-30 tests on, whose name scores are published under, or the
        level that an agent trains on.

    Raises:
      ValueError: DMLab-30 has no such level; the message lists the nearest names.
    """
    name = game.removeprefix(PREFIX)
    is_of_a_pair = any(name in (f"{pair}_train", f"{pair}_test") for pair in _PAIRS)
    task = name.rpartition("_")[0] if is_of_a_pair else name
    if task not in TASKS:
        choice = hint(name, TASKS, "; docs/dmlab.md lists them")
        raise ValueError(f"--game={game} is not a level of DMLab-30{choice}.")
    if task not in _PAIRS:
        return task
    return f"{task}_test" if held_out else f"{task}_train"
