"""Rock, paper, scissors as a game of PettingZoo's parallel API: `--game=benchmarks.roshambo:parallel_env`.

No strategy is best against all: whatever beats the newest policy is beaten by something older.
"""

from typing import Any

import gymnasium
import numpy as np

_PLAYERS = ("first", "second")


class Roshambo:
    """One round is an episode; the winner gets 1 and the loser -1. There is nothing to observe."""

    possible_agents = _PLAYERS

    def __init__(self) -> None:
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> gymnasium.Space:
        """The space of the only observation, a zero."""
        return gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)

    def action_space(self, agent: str) -> gymnasium.Space:
        """The space of moves; 0 is rock, 1 paper, 2 scissors."""
        return gymnasium.spaces.Discrete(3)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Starts a round."""
        self.agents = list(_PLAYERS)
        return self._observations(), {player: {} for player in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[dict[str, Any], ...]:
        """Plays the round."""
        won = (0.0, 1.0, -1.0)[(actions["first"] - actions["second"]) % 3]
        self.agents = []
        ended, cut = dict.fromkeys(_PLAYERS, True), dict.fromkeys(_PLAYERS, False)
        infos: dict[str, Any] = {player: {} for player in _PLAYERS}
        return self._observations(), {"first": won, "second": -won}, ended, cut, infos

    def close(self) -> None:
        """Does nothing."""

    @staticmethod
    def _observations() -> dict[str, np.ndarray]:
        return {player: np.zeros(1, np.float32) for player in _PLAYERS}


def parallel_env(render_mode: str | None = None) -> Roshambo:
    """A game."""
    return Roshambo()
