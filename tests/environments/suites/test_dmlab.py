"""DeepMind Lab: on a double of its engine, and in one test on the real one where it is installed."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.specs import environment_spec
from seed_rl.environments.suites import dmlab
from seed_rl.environments.suites.dmlab import ACTIONS, SUITE, DmlabConfig
from seed_rl.runs import scores
from seed_rl.types import flatten_spec
from tests.environments.contract import fulfils
from tests.environments.suites import dmlab_double
from tests.environments.suites.dmlab_double import published_levels

LANGUAGE = "language_select_described_object"
FORWARD, FIRE = 0, 8


@pytest.fixture
def engine():
    """The double in the place of the module deepmind_lab."""
    with dmlab_double.installed() as module:
        yield module


TestContract = pytest.mark.usefixtures("engine")(fulfils(SUITE, DmlabConfig()))
TestContractWithInstruction = pytest.mark.usefixtures("engine")(
    fulfils(SUITE, DmlabConfig(game=LANGUAGE, instruction=True, num_action_repeats=1, width=24, height=16))
)


def test_the_engine_gets_text_only(engine):
    SUITE.make(DmlabConfig(dataset_path="/data/pictures", renderer="hardware"), 0)
    (lab,) = engine.labs
    others = {"mixerSeed": "0", "logLevel": "WARN", "datasetPath": "/data/pictures"}
    assert lab.config == {"width": "96", "height": "72", "fps": "60", **others}
    assert lab.renderer == "hardware"


def test_evaluation_is_by_the_protocol_of_dmlab30(engine):
    training = DmlabConfig(game="rooms_collect_good_objects", level_cache=None, num_action_repeats=2)
    config = training.for_evaluation()
    SUITE.make(config, 0)
    (lab,) = engine.labs
    assert lab.level.endswith("_test")
    assert lab.config["allowHoldOutLevels"] == "true"
    assert lab.config["mixerSeed"] == str(0x600D5EED) == "1611489005"
    assert config == dataclasses.replace(training, hold_out_levels=True, mixer_seed=0x600D5EED)
    assert config.for_evaluation() == config


def test_spaces_and_instructions(engine):
    spec = environment_spec(SUITE.make(DmlabConfig(), 0), DmlabConfig())
    assert (spec.observation.shape, spec.observation.dtype) == ((72, 96, 3), "uint8")
    assert spec.action.num_values == (9,)
    config = DmlabConfig(game=LANGUAGE, instruction=True, width=120, height=88, num_action_repeats=40)
    env = SUITE.make(config, 0)
    spec = environment_spec(env, config)
    assert [(name, leaf.shape, leaf.dtype) for name, leaf in flatten_spec(spec.observation)] == [
        ("frame", (88, 120, 3), "uint8"),
        ("instruction", (16,), "int32"),
    ]
    # Bounded, so that networks take the numbers for words and not for sizes.
    assert set(spec.observation["instruction"].num_values) == {1000}
    red = env.reset(seed=0)[0]["instruction"]
    assert (red > 0).tolist() == [True] * 7 + [False] * 9
    blue = env.step(FORWARD)[0]["instruction"]
    assert (red != blue).tolist() == [index == 2 for index in range(16)]
    assert not SUITE.make(DmlabConfig(instruction=True), 0).reset()[0]["instruction"].any()


def test_actions_are_the_nine_of_impala(engine):
    """Written out here by the names of the engine's own action spec."""
    look, strafe, move = "LOOK_LEFT_RIGHT_PIXELS_PER_FRAME", "STRAFE_LEFT_RIGHT", "MOVE_BACK_FORWARD"
    expected = [
        *({move: 1}, {move: -1}, {strafe: -1}, {strafe: 1}, {look: -20}, {look: 20}),
        *({look: -20, move: 1}, {look: 20, move: 1}, {"FIRE": 1}),
    ]
    env = SUITE.make(DmlabConfig(num_action_repeats=3), 0)
    env.reset(seed=0)
    (lab,) = engine.labs
    names = [name for name, _, _ in dmlab_double.ACTION_SPEC]
    for action in range(env.action_space.n):
        env.step(action)
    played = [{name: v for name, v in zip(names, taken, strict=True) if v} for taken, _ in lab.steps]
    assert played == expected
    assert {num_steps for _, num_steps in lab.steps} == {3}
    assert len(set(ACTIONS)) == 9


def test_rewards_are_summed_over_the_repeated_frames_and_not_changed(engine):
    env = SUITE.make(DmlabConfig(num_action_repeats=8), 0)
    env.reset(seed=0)
    assert [env.step(action)[1] for action in (FORWARD, FIRE, 1)] == [2.0, -8.0, 0.0]


def test_an_episodes_end_terminates_and_repeats_the_last_observation(engine):
    env = SUITE.make(DmlabConfig(num_action_repeats=7), 0)
    observation, terminated, agent_steps = env.reset(seed=3)[0], False, 0
    while not terminated:
        before = observation
        observation, reward, terminated, truncated, info = env.step(FORWARD)
        agent_steps += 1
        assert not truncated and info == {}
        assert (reward == 7 / 4 and (observation != before).any()) or terminated
    np.testing.assert_array_equal(observation, before)
    assert observation is not before and 0 < reward <= 7 / 4 and 60 <= agent_steps * 7 < 157
    np.testing.assert_array_equal(env.render(), before)
    with pytest.raises(RuntimeError, match="advance"):
        env.step(FORWARD)
    assert (env.reset()[0] != before).any()


def test_every_episode_has_a_seed_of_its_own_and_a_seeded_reset_starts_again(engine):
    env = SUITE.make(DmlabConfig(), 11)
    (lab,) = engine.labs
    for _ in range(3):
        env.reset()
    env.reset(seed=5)
    env.reset()
    env.reset(seed=5)
    env.reset()
    assert [episode for episode, _ in lab.resets] == [0, 1, 2, 0, 1, 0, 1]
    seeds = [seed for _, seed in lab.resets]
    assert len(set(seeds[:5])) == 5
    assert seeds[3:5] == seeds[5:7]
    SUITE.make(DmlabConfig(), 11).reset()
    assert engine.labs[1].resets == [(0, seeds[0])]
    assert all(type(seed) is int and 0 <= seed < 2**31 for seed in seeds)


def test_actors_share_a_level_cache(engine, tmp_path):
    config = DmlabConfig(level_cache=str(tmp_path / "cache"))
    batch = SingleEnvironments(SUITE, config, [0, 1])
    for seed in range(40):
        batch.reset([seed, 100 + seed])
    compiled = [key for lab in engine.labs for key in lab.compiled]
    assert len(compiled) == len(set(compiled)) == dmlab_double.NUM_MAPS
    SUITE.make(config, 7).reset()
    assert engine.labs[-1].compiled == []
    SUITE.make(DmlabConfig(), 7).reset()
    assert len(engine.labs[-1].compiled) == 1
    SUITE.make(config.for_evaluation(), 7).reset()
    assert len(engine.labs[-1].compiled) == 1


@pytest.mark.dmlab
def test_the_real_engine():
    """Skipped without it. The double equals this build; docs/dmlab.md describes how to run it."""
    deepmind_lab = pytest.importorskip("deepmind_lab", reason="needs the engine deepmind_lab")
    config = DmlabConfig(game=LANGUAGE, instruction=True)
    env = SUITE.make(config, 0)
    lab = deepmind_lab.Lab(config.level, ["RGB_INTERLEAVED"], config=config.engine_settings)
    spec = [(entry["name"], entry["min"], entry["max"]) for entry in lab.action_spec()]
    assert spec == list(dmlab_double.ACTION_SPEC)
    lab.close()
    trajectories = []
    for _ in range(2):
        frames = [env.reset(seed=3)[0]]
        for action in range(env.action_space.n):
            observation, reward, terminated, truncated, _ = env.step(action)
            assert env.observation_space.contains(observation)
            assert isinstance(reward, float)
            assert not terminated and not truncated
            frames.append(observation)
        assert frames[0]["instruction"].any()
        trajectories.append(frames)
    np.testing.assert_equal(*trajectories)
    while not terminated:
        observation, _, terminated, _, info = env.step(FORWARD)
    assert info == {}
    assert env.reset()[0]["frame"].any()
    env.close()
    SUITE.make(DmlabConfig(game="rooms_collect_good_objects").for_evaluation(), 0).reset()


def test_the_tasks_are_those_that_scores_are_published_for_and_are_in_the_docs():
    assert [dmlab.level(task, held_out=True) for task in dmlab.TASKS] == published_levels()
    assert len(set(dmlab.TASKS)) == 30
    text = (Path(__file__).parents[3] / "docs" / "dmlab.md").read_text(encoding="utf-8")
    for task in dmlab.TASKS:
        assert task in text
        assert scores.published_scores("dmlab", dmlab.level(task, held_out=True)) is not None


@pytest.mark.parametrize("prefix", ["", dmlab_double.PREFIX])
@pytest.mark.parametrize("task", dmlab.TASKS)
def test_any_name_of_a_pair_trains_on_one_and_is_evaluated_on_the_other(task, prefix):
    is_pair = task in dmlab.TASKS[:2]  # Other levels are one and the same.
    for ending in ("", "_train", "_test") if is_pair else ("",):
        config = DmlabConfig(game=prefix + task + ending)
        assert config.level == f"contributed/dmlab30/{task}{'_train' if is_pair else ''}"
        assert config.for_evaluation().level == f"contributed/dmlab30/{task}{'_test' if is_pair else ''}"
