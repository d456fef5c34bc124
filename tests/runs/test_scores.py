import pytest

from seed_rl.environments.suites.atari import AtariConfig
from seed_rl.runs.scores import game_key, published_games, published_scores


def test_pong_by_hand():
    # Table 10 of the SEED RL paper: a human has 14.6; the random policy has -20.7.
    assert published_scores("atari", "Pong") == (-20.7, 14.6)
    assert published_scores("atari", "Pong").human_normalized(-20.7) == 0
    assert published_scores("atari", "Pong").human_normalized(14.6) == 100
    assert published_scores("atari", "Pong").human_normalized(21.0) == pytest.approx(100 * 41.7 / 35.3)


def test_all_57_games_have_scores_and_are_games():
    pytest.importorskip("ale_py")
    table = {game_key(game): columns for game, columns in published_games("atari").items()}
    assert len(table) == 57
    from ale_py import roms

    ids = {rom.replace("_", "") for rom in roms.get_all_rom_ids()}
    assert set(table) <= ids
    assert AtariConfig().game.lower() in table
    assert all(columns["human"] != columns["random"] for columns in table.values())
    assert table["alien"]["seed_8_tpu_v3"] == 262197.4 and table["zaxxon"]["r2d2"] == 224910.7


def test_the_30_levels_have_scores():
    assert published_scores("dmlab", "rooms_watermaze") == (4.065, 54)
    for name in ("rooms_collect_good_objects", "contributed/dmlab30/rooms_collect_good_objects_train"):
        assert published_scores("dmlab", name) == (0.073, 10)
    assert published_scores("dmlab", "rooms_watermase") is None
    assert len(published_games("dmlab")) == 30


def test_others_have_no_published_scores():
    for environment, game in (("atari", "Pooyan"), ("gym", "CartPole-v1"), ("catch", None)):
        assert published_scores(environment, game) is None
