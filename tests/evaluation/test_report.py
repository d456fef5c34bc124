import types

import numpy as np
import pytest

from seed_rl.environments.base import EnvironmentConfig
from seed_rl.evaluation import report
from seed_rl.evaluation.agent import PlayedEpisode
from seed_rl.evaluation.load import EvaluateConfig
from seed_rl.evaluation.report import summarize, table
from seed_rl.runs.record import RunRecord


def run(environment="catch", **settings):
    identity = {"environment": {"name": environment, "settings": settings}, "agent": {"name": "vtrace"}}
    return RunRecord("runs/x", identity, {}, {}, {})


def episodes(*returns):
    return [PlayedEpisode(i, i, [0] * (10 + i), r) for i, r in enumerate(returns)]


def test_statistics_by_hand():
    summary = summarize(run(), episodes(1.0, 4.0, -2.0, 5.0))
    deviation = np.sqrt(sum((r - 2) ** 2 for r in (1, 4, -2, 5)) / 3)
    assert summary == {
        "episodes": 4,
        "mean_return": 2.0,
        "median_return": 2.5,
        "standard_error": pytest.approx(deviation / 2),
        "min_return": -2.0,
        "max_return": 5.0,
        "mean_episode_agent_steps": 11.5,
    }


def test_the_environments_own_figures_are_means_over_the_episodes_that_have_them():
    own = [{"is_success": 1.0}, {"is_success": 0.0, "wins": 3.0}, {"wins": float("nan")}]
    played = [one._replace(figures=figures) for one, figures in zip(episodes(1, 2, 3), own, strict=True)]
    summary = summarize(run(), played)
    assert (summary["episode/is_success"], summary["episode/wins"]) == (0.5, 3.0)
    assert "mean is_success  0.5\n" in table(summary, repeats=1, asked=3) + "\n"


def test_atari_is_human_normalized():
    summary = summarize(run("atari", game="Pong"), episodes(21.0, 21.0))
    assert summary["human_normalized"] == pytest.approx(100 * 41.7 / 35.3)
    text = table(summary, repeats=4, asked=2)
    assert "118.1% (random -20.7, human 14.6)" in text
    assert "10.5 agent steps, 42 environment frames" in text
    assert "human_normalized" not in summarize(run("atari", game="Pooyan"), episodes(1.0))


@pytest.mark.parametrize(
    ("secs", "lines"),
    [
        ([1.0] * 4, []),
        ([1.0] * 12, [5, 10]),
        ([7.0] * 3, [1, 2, 3]),
        ([100.0, 5.0, 6.0, 8.0], [1, 3]),  # Later not every five seconds.
    ],
)
def test_without_a_terminal_lines_say_how_many_episodes_have_ended(monkeypatch, capsys, secs, lines):
    now = [1000.0]

    def play_games(*_):
        for number, passed in enumerate(secs):
            now[0] += passed
            yield PlayedEpisode(number, number, [], 1.0)

    monkeypatch.setattr(report, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(report, "policy_sides", lambda *_: [])
    monkeypatch.setattr(report, "play_games", play_games)
    subject = types.SimpleNamespace(suite=None, environment_config=EnvironmentConfig())
    report.play_episodes(EvaluateConfig.of(episodes=len(secs)), [subject])
    said = capsys.readouterr().err.splitlines()
    assert said == [f"seed_rl: {count} of {len(secs)} episodes, mean return 1.00." for count in lines]
