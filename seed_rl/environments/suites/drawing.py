"""Draws environments whose engine cannot be rendered."""

import numpy as np

_SIDE = 24


def draw_board(board: np.ndarray) -> np.ndarray:
    """Draws a board `[rows, columns]`, from 0 (dark) to 1 (light), as squares: uint8 `[height, width, 3]`."""
    shades = (255 * np.clip(board, 0.0, 1.0)).astype(np.uint8)
    squares = np.kron(shades, np.ones((_SIDE, _SIDE), np.uint8))
    squares[::_SIDE] = np.maximum(squares[::_SIDE], 40)  # a grid
    squares[:, ::_SIDE] = np.maximum(squares[:, ::_SIDE], 40)
    return np.repeat(squares[..., np.newaxis], 3, axis=-1)
