"""Catch and Recall."""

import numpy as np
import pytest

from seed_rl.environments.suites.catch import SUITE as CATCH
from seed_rl.environments.suites.catch import CatchConfig
from seed_rl.environments.suites.recall import SUITE as RECALL
from seed_rl.environments.suites.recall import RecallConfig
from tests.environments.contract import fulfils

TestCatch = fulfils(CATCH, CatchConfig())
TestCatchWithRepeats = fulfils(CATCH, CatchConfig(rows=24, columns=7, num_action_repeats=2))


def _play(env, choose):
    """(rewards, last board) of an episode; choose: (ball column, paddle column) -> action."""
    board, _ = env.reset()
    rewards, terminated = [], False
    paddle = board.shape[1] // 2
    while not terminated:
        action = choose(int(board[:-1].any(axis=0).argmax()), paddle)
        paddle = min(max(paddle + action - 1, 0), board.shape[1] - 1)
        board, reward, terminated, truncated, _ = env.step(action)
        assert not truncated
        rewards.append(reward)
    return rewards, board


def test_following_the_ball_always_wins():
    env = CATCH.make(CatchConfig(), seed=0)
    for _ in range(20):
        rewards, board = _play(env, lambda ball, paddle: 1 + np.sign(ball - paddle))
        assert rewards == [0.0] * 8 + [1.0]
        assert board.sum() == 1  # the paddle covers the ball


def test_board_shows_the_ball_falling_and_the_paddle():
    env = CATCH.make(CatchConfig(rows=4, columns=3), seed=1)
    board, _ = env.reset()
    column = int(board[0].argmax())
    for row, action, paddle in ((1, 0, 0), (2, 0, 0), (3, 2, 1)):
        board, *_ = env.step(action)
        expected = np.zeros((4, 3), np.float32)
        expected[row, column] = expected[-1, paddle] = 1
        np.testing.assert_array_equal(board, expected)


TestRecall = fulfils(RECALL, RecallConfig(delay=3))
TestRecallOfMoreCues = fulfils(RECALL, RecallConfig(delay=6, num_cues=4))


@pytest.mark.parametrize("delay,num_cues", [(0, 2), (1, 3), (7, 5)])
def test_only_the_answer_counts_and_only_the_cue_tells_it(delay, num_cues):
    env, rng = RECALL.make(RecallConfig(delay=delay, num_cues=num_cues), seed=0), np.random.default_rng(0)
    question = np.eye(num_cues + 1)[-1]
    cues = []
    for _ in range(40):
        observation, _ = env.reset()
        cue = int(observation.argmax())
        np.testing.assert_array_equal(observation, np.eye(num_cues + 1)[cue])
        cues.append(cue)
        for _ in range(delay):
            observation, reward, terminated, _, _ = env.step(int(rng.integers(num_cues)))
            assert not observation.any() and reward == 0 and not terminated
        observation, reward, terminated, _, _ = env.step(int(rng.integers(num_cues)))
        np.testing.assert_array_equal(observation, question)
        assert reward == 0 and not terminated
        answer = int(rng.integers(num_cues))
        _, reward, terminated, truncated, _ = env.step(answer)
        assert (reward, terminated, truncated) == (float(answer == cue), True, False)
    assert set(cues) == set(range(num_cues))
