"""Players that follow rules: a perfect one for tic-tac-toe, and a one-step look-ahead for connect four."""

import functools
from collections.abc import Iterator

import numpy as np

from seed_rl.types import EnvOutput

# Boards are tuples by square: 1 for the player to move, -1 for the other, 0 for nobody.
Board = tuple[int, ...]

_LINES = [
    *[(i, i + 1, i + 2) for i in (0, 3, 6)],
    *[(i, i + 3, i + 6) for i in (0, 1, 2)],
    *[(0, 4, 8), (2, 4, 6)],
]
_ROWS, _COLUMNS = 6, 7


@functools.cache
def value(board: Board) -> int:
    """Result with perfect play for the player to move: 1 if it wins, 0 for a draw, -1 if it loses."""
    if any(all(board[square] == -1 for square in line) for line in _LINES):
        return -1
    return max((-value(after(board, square)) for square in empty(board)), default=0)


def empty(board: Board) -> Iterator[int]:
    """The squares that are free."""
    return (square for square, owner in enumerate(board) if not owner)


def after(board: Board, square: int) -> Board:
    """The board after a move, from the view of the other player."""
    return tuple(-owner for owner in (*board[:square], 1, *board[square + 1 :]))


class Perfect:
    """Plays tic-tac-toe without mistakes; of several best moves, it draws one."""

    def __init__(self, seed: int = 0):
        self._random = np.random.default_rng(seed)

    def __call__(self, env: EnvOutput, rows: np.ndarray) -> np.ndarray:
        """Moves `[len(rows)]` for observations `[E, 3, 3, 2]`."""
        planes = env.observation["observation"][rows].reshape(len(rows), 9, 2).astype(int)
        return np.array([self._move(tuple((own - other).tolist())) for own, other in planes.swapaxes(1, 2)])

    def _move(self, board: Board) -> int:
        values = {square: -value(after(board, square)) for square in empty(board)}
        return int(self._random.choice([s for s, found in values.items() if found == max(values.values())]))


class LookAhead:
    """Plays connect four: wins if one move does, else prevents that the other does, else draws a move."""

    def __init__(self, seed: int = 0):
        self._random = np.random.default_rng(seed)

    def __call__(self, env: EnvOutput, rows: np.ndarray) -> np.ndarray:
        """Columns `[len(rows)]` for observations `[E, 6, 7, 2]`."""
        return np.array([self._move(planes) for planes in env.observation["observation"][rows]])

    def _move(self, planes: np.ndarray) -> int:
        heights = _ROWS - planes.any(-1).sum(0)  # The row above the highest disc of each column, plus one.
        possible = np.flatnonzero(heights > 0)
        for plane in (0, 1):
            for column in possible:
                board = planes[..., plane].astype(bool)
                board[heights[column] - 1, column] = True
                if four(board):
                    return int(column)
        return int(self._random.choice(possible))


def four(board: np.ndarray) -> bool:
    """Whether four discs of a bool `[6, 7]` are in a row, in any direction."""
    padded = np.pad(board, 3)
    return any(
        np.logical_and.reduce(
            [padded[3 + k * down :, 3 + k * right :][:_ROWS, :_COLUMNS] for k in range(4)]
        ).any()
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1))
    )
