"""Evaluation with environments that fail: every episode that ends counts, and as many are played as asked."""

import pytest

from seed_rl.environments.failures import EnvironmentFailedError, FailureConfig
from seed_rl.environments.suites.classic import SUITE, GymConfig
from seed_rl.evaluation.agent import PlayedEpisode
from seed_rl.evaluation.load import EvaluateConfig
from seed_rl.evaluation.matches import play_games
from seed_rl.evaluation.video import Rerun, RerunError
from seed_rl.seeds import derived_seed
from tests.evaluation import fragile
from tests.evaluation.fragile import FAULT, LENGTH
from tests.evaluation.test_agent import Scripted, scripted

CONFIG = GymConfig(game=fragile.GAME)
EPISODES, NUM_ENVS = 12, 3


@pytest.fixture
def fails(monkeypatch):
    """Sets what fails, from now on."""
    fragile.Fragile.calls.clear()
    return lambda fault: monkeypatch.setenv(FAULT, fault)


class TwoActions(Scripted):
    num_actions = 2


def played(failures=3, num_envs=NUM_ENVS):
    """The episodes that were played, and why there were not enough."""
    config = EvaluateConfig.of(
        episodes=EPISODES, num_envs=num_envs, seed=10, max_environment_failures=failures
    )
    episodes = []
    try:
        for episode in play_games(SUITE, CONFIG, [scripted(TwoActions(), 0, config)], config):
            episodes.append(episode)
    except EnvironmentFailedError as error:
        return sorted(episodes), str(error)
    return sorted(episodes), None


BY_CHANCE = ["step once 1", "step once 14", "step once 15", "reset once 1", "reset once 5", "make once 2"]


@pytest.mark.parametrize("fault", [*BY_CHANCE, "reset once 15"])
def test_as_many_episodes_are_played_as_were_asked_for(fails, fault):
    fails(fault)
    episodes, failure = played()
    assert failure is None
    assert len(episodes) == len({episode.seed for episode in episodes}) == EPISODES
    assert {(e.episode_return, e.agent_steps) for e in episodes} == {(LENGTH, LENGTH)}
    assert [e.seed for e in episodes] == [derived_seed(10, e.number) for e in episodes]


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize(
    "fault",
    ["step raise 22", "step nan 15", "step short 30", "step nothing 15", "reset raise 9", "reset raise 13"],
)
def test_no_episode_that_ends_is_lost(fails, fault, num_envs, tmp_path, monkeypatch):
    monkeypatch.setenv(fragile.ENDED, str(tmp_path / "ended"))
    fails(fault)
    episodes, failure = played(num_envs=num_envs)
    assert 0 < len(episodes) == len((tmp_path / "ended").read_bytes()) < EPISODES
    assert failure.startswith("Environment ")
    assert "--max_environment_failures" in failure


@pytest.mark.parametrize("num_envs", [1, 3])
def test_an_environment_that_has_played_its_share_may_fail(fails, num_envs):
    """Its last reset fails, which is not needed any more."""
    resets = num_envs + EPISODES  # One when it is made, and one for each episode.
    fails(f"reset raise {resets + 1}")
    episodes, failure = played(num_envs=num_envs)
    assert (len(episodes), failure) == (EPISODES, None)


EPISODE = PlayedEpisode(0, 4, [0] * LENGTH, float(LENGTH))


def pictures():
    return [
        scene.picture for scene in Rerun(SUITE, CONFIG, EPISODE, FailureConfig(env_step_timeout_secs=1.0))
    ]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("make hang", r"make\(\) did not return within 1 s \(--env_step_timeout_secs\)"),
        ("render hang 3", r"render\(\) did not return within 1 s"),
        ("make raise", r"make\(\) raised OSError: the engine\\nis gone"),
        ("make exit", r"make\(\) raised SystemExit: 3"),
        ("rendering", r"make\(\) raised TypeError: .*render_mode"),
        ("reset raise 2", r"reset\(\) raised OSError"),
        ("step raise 4", r"step\(\) raised OSError"),
        ("step short 4", r"step\(\) raised ValueError"),
        ("render raise", r"render\(\) raised OSError"),
        ("render exit 3", r"render\(\) raised SystemExit: 3"),
        ("render nothing", r"render\(\) returned None"),
        ("render missing", r"render\(\) is not implemented"),
        ("render floats", r"render\(\) returned float32\[8, 8, 3\], not uint8"),
        ("render alpha", r"render\(\) returned uint8\[8, 8, 4\], not uint8\[height, width, 3\]"),
        ("render sizes", r"render\(\) returned uint8\[8, 2, 3\] after pictures of \[8, 1, 3\]"),
    ],
)
def test_what_cannot_be_rendered_is_one_sentence(fails, fault, sentence):
    fails(fault)
    with pytest.raises(RerunError, match=rf"^The environment cannot be rendered as .*\({sentence}.*\)\.$"):
        pictures()


@pytest.mark.parametrize("fault", ["close raise", "close exit", "close hang"])
def test_an_environment_that_cannot_be_closed_is_rendered(fails, fault):
    fails(fault)
    assert {(picture.shape, str(picture.dtype)) for picture in pictures()} == {((8, 8, 3), "uint8")}
