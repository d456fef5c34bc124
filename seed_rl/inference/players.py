"""Players: idle ones are left out of inference, and opponents are acted for by policies of their own."""

import functools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import numpy as np
import optree

from seed_rl.algorithms.policy import Policy
from seed_rl.inference.env_table import EnvTable
from seed_rl.inference.rows import Rows
from seed_rl.serving.request import Request
from seed_rl.types import AgentOutput, EnvironmentSpec, Nest

# The policy that is trained; all others have numbers above it.
LEARNING = 0


class Opponents(Protocol):
    """Policies by number that act for players and are not trained on their steps. Thread-safe."""

    def draw(self) -> int:
        """The policy of a new episode's other players; `LEARNING`: all of them learn."""

    def ended(self, number: int, score: float) -> None:
        """Adds the result of an episode against a policy: 1 if the learning player won, 0.5 for a draw, 0."""

    def policy(self, number: int) -> tuple[int, Policy, Callable[[], AbstractContextManager[int]]]:
        """The place of a policy, the policy there, and what holds its weights for a batch."""


class Turn(NamedTuple):
    """Part of each row `[B]` of a batch in what is to be done.

    acts: bool, whether its player is to move. learns: bool, whether its step is experience. leaves: bool,
    whether it is the last one that is, as another policy plays on. number: int64, of the policy that acts.
    """

    acts: np.ndarray
    learns: np.ndarray
    leaves: np.ndarray
    number: np.ndarray


class Players:
    """A table for players: does what `EnvTable` does for those that are to move, with the policy of each.

    The first player that learns and the policy of the others are drawn when a game ends, and each player
    changes over at its own first step of the next one. That step completes its experience so far, so the
    policy that is trained answers it as well, and the transition that follows is none.
    """

    def __init__(
        self,
        table: EnvTable,
        make_table: Callable[[Policy], EnvTable],
        spec: EnvironmentSpec,
        num_envs: int,
        seed: int,
        opponents: Opponents | None = None,
    ):
        """Takes the table of the policy that is trained; `make_table` makes those of opponents when they act.

        Without opponents, all players learn.
        """
        self._make_table, self._table = make_table, table
        self._opponents = opponents
        self._opponent_tables: dict[int, EnvTable] = {}
        self._action, self._record, self._num_envs = spec.action, self._table.record, num_envs
        self._size = spec.num_players
        self._random, self._lock = np.random.default_rng(seed), threading.Lock()
        self._of_thread = threading.local()
        self._last_action = spec.action.zeros(num_envs)
        self._games = np.zeros((num_envs // self._size, 2), np.int64)  # Drawn: policy, player that learns.
        self._next = np.zeros(num_envs, np.int64)  # The policies of the game's present episode.
        for game in range(len(self._games)):
            self._draw(game)
        self._number = self._next.copy()  # Those that act for each player.
        self._begun: dict[int, tuple[int, Turn]] = {}  # By first environment, with the group's key.

    def begin(self, records: np.ndarray, requests: list[Request]) -> Turn:
        """The part of each of the valid records `[B]` of requests. Games that have ended draw opponents."""
        if self._opponents is None:
            acts = ~(records["done"] & records["truncated"])
            return Turn(acts, acts, np.zeros_like(acts), np.zeros(len(acts), np.int64))
        turns, end = [], 0
        for request in requests:
            begin, end = end, end + request.group.num_envs
            turns.append(self._turn(records[begin:end], request))
        return Turn(*map(np.concatenate, zip(*turns, strict=True)))

    def learns(self, records: np.ndarray, request: Request) -> np.ndarray:
        """Whether the steps of a request, which may have to wait, will be experience: bool `[B]`."""
        turn = self.begin(records, [request])
        if self._opponents is not None:
            self._begun[request.group.first_env] = request.group.key, turn
        return turn.learns

    def _turn(self, records: np.ndarray, request: Request) -> Turn:
        """The part of a request's rows in what is to be done, which is found once."""
        group = request.group
        key, turn = self._begun.pop(group.first_env, (-1, None))
        if turn is not None and key == group.key:
            return turn
        if request.episodes:
            self._end_games(request)
        acts, env_ids = ~(records["done"] & records["truncated"]), group.env_ids
        starts, before = acts & records["done"], self._number[env_ids]
        number = np.where(starts, self._next[env_ids], before)
        self._number[env_ids] = number
        leaves = starts & (before == LEARNING) & (number != LEARNING)
        return Turn(acts, (acts & (number == LEARNING)) | leaves, leaves, number)

    def act(self, rows: np.ndarray, turn: Turn) -> tuple[np.ndarray, AgentOutput, Nest, np.ndarray]:
        """One inference call for each policy; see `EnvTable.act`. Rows that nobody acts on have zeros."""
        if turn.learns.all() and not turn.leaves.any():
            found = self._table.act(rows)
            self._last_action[rows["env_id"]] = found[1].action
            return found
        learning = np.flatnonzero(turn.learns)
        prev_action, is_good = self._action.zeros(len(rows)), np.ones(len(rows), np.bool_)
        output, states = AgentOutput(self._action.zeros(len(rows)), {}), ()
        if len(learning):
            *of_steps, states, good = self._table.act(self._taken(rows, learning))
            scatter = functools.partial(_scattered, size=len(rows), places=learning)
            prev_action, output = optree.tree_map(scatter, tuple(of_steps))
            is_good[learning] = good
        for number in np.unique(turn.number[turn.acts & (turn.number != LEARNING)]).tolist():
            places = np.flatnonzero(turn.acts & (turn.number == number))
            table, weights = self._opponent(number)
            with weights():
                _, answer, _, good = table.act(self._taken(rows, places))
            output.action[places], is_good[places] = answer.action, is_good[places] & good
        acted = np.flatnonzero(turn.acts)
        self._last_action[rows["env_id"][acted]] = output.action[acted]
        return prev_action, output, states, is_good

    def reset(self, env_ids: np.ndarray) -> None:
        """Resets rows to the initial state; see `EnvTable.reset`."""
        for table in (self._table, *list(self._opponent_tables.values())):
            table.reset(env_ids)
        self._last_action[env_ids] = 0

    def last_action(self, env_ids: np.ndarray) -> np.ndarray:
        """The actions `[B, ...]` that were chosen last for players."""
        return self._last_action[env_ids]

    def _end_games(self, request: Request) -> None:
        """Gives the results of the games that end with a request, and draws the next episodes' policies."""
        assert self._opponents is not None
        first = request.group.first_env
        returns = {first + episode.env: episode.episode_return for episode in request.episodes}
        for game in sorted({env_id // self._size for env_id in returns}):
            players = range(game * self._size, (game + 1) * self._size)
            if returns.keys() >= set(players):
                number, seat = self._games[game].tolist()
                own = returns[players[seat]]
                best = max(returns[player] for player in players if player != players[seat])
                self._opponents.ended(number, 0.5 + 0.5 * np.sign(own - best))
            self._draw(game)

    def _draw(self, game: int) -> None:
        number = self._opponents.draw() if self._opponents else LEARNING
        with self._lock:
            seat = int(self._random.integers(self._size))
        self._games[game] = number, seat
        self._next[game * self._size : (game + 1) * self._size] = number
        self._next[game * self._size + seat] = LEARNING

    def _opponent(self, number: int) -> tuple[EnvTable, Callable[[], AbstractContextManager[int]]]:
        assert self._opponents is not None
        place, policy, weights = self._opponents.policy(number)
        with self._lock:
            if place not in self._opponent_tables:
                self._opponent_tables[place] = self._make_table(policy)
        return self._opponent_tables[place], weights

    def _taken(self, rows: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Some rows of a batch; this thread's next call overwrites them."""
        if not hasattr(self._of_thread, "rows"):
            self._of_thread.rows = Rows(self._record, self._num_envs)
        return self._of_thread.rows.take(rows, places)


def _scattered(values: np.ndarray, size: int, places: np.ndarray) -> np.ndarray:
    """An array `[size, ...]` with values at places, and zeros elsewhere."""
    found = np.zeros((size, *values.shape[1:]), values.dtype)
    found[places] = values
    return found
