"""Catch."""

import numpy as np

from seed_rl.environments.suites.catch import SUITE, CatchConfig
from tests.environments.contract import EnvironmentContract


class TestContract(EnvironmentContract):
    suite = SUITE
    config = CatchConfig()


class TestContractWithRepeats(EnvironmentContract):
    suite = SUITE
    config = CatchConfig(rows=24, columns=7, num_action_repeats=2)


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
    env = SUITE.make(CatchConfig(), seed=0)
    for _ in range(20):
        rewards, board = _play(env, lambda ball, paddle: 1 + np.sign(ball - paddle))
        assert rewards == [0.0] * 8 + [1.0]
        assert board.sum() == 1  # the paddle covers the ball


def test_board_shows_the_ball_falling_and_the_paddle():
    env = SUITE.make(CatchConfig(rows=4, columns=3), seed=1)
    board, _ = env.reset()
    column = int(board[0].argmax())
    for row, action, paddle in ((1, 0, 0), (2, 0, 0), (3, 2, 1)):
        board, *_ = env.step(action)
        expected = np.zeros((4, 3), np.float32)
        expected[row, column] = expected[-1, paddle] = 1
        np.testing.assert_array_equal(board, expected)
