import types

import pytest

from seed_rl.commands import evaluate
from seed_rl.commands.evaluate import EvaluateConfig
from seed_rl.evaluation.episodes import PlayedEpisode


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

    def play(*_, episodes, **__):
        for number in range(episodes):
            now[0] += secs[number]
            yield PlayedEpisode(number, number, [], 1.0)

    monkeypatch.setattr(evaluate, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("seed_rl.evaluation.agent.play", play)
    anything = types.SimpleNamespace(
        **dict.fromkeys(("suite", "environment_config", "evaluation_env_id")),
        trained=types.SimpleNamespace(policy=None),
    )
    evaluate.play_episodes(EvaluateConfig.of(episodes=len(secs)), anything)
    said = capsys.readouterr().err.splitlines()
    assert said == [f"seed_rl: {count} of {len(secs)} episodes, mean return 1.00." for count in lines]
