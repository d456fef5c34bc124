"""Games of several players that step together: makes records of what players get, as `seed_rl.types` says."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from seed_rl.environments.base import EnvironmentConfig, Info, Suite, raw_reward
from seed_rl.environments.batched import BatchedEnvironment
from seed_rl.environments.games import Frame, Game
from seed_rl.environments.reading import INFO_DEPTH, owned
from seed_rl.environments.specs import environment_spec
from seed_rl.seeds import derived_seed
from seed_rl.types import EnvironmentSpec


@dataclasses.dataclass
class _PlayerState:
    """State of a player in the current episode.

    Attributes:
      last_reward: what the player's last episode that terminated has left for the first step of the next one.
      pending: what the player got since the last step.
      total: the return so far, of raw rewards.
      agent_steps: own actions so far.
      is_to_move: whether the newest record is a step whose action the game executes.
      is_out: whether the episode has ended.
      is_cut: whether it has ended without termination.
      info: of the last step, if it has ended.
    """

    last_reward: float = 0.0
    pending: float = 0.0
    total: float = 0.0
    agent_steps: int = 0
    is_to_move: bool = False
    is_out: bool = False
    is_cut: bool = False
    info: dict[Any, Any] = dataclasses.field(default_factory=dict)

    def next(self) -> "_PlayerState":
        """The same player in the next episode. What came without an action in the last one is no reward."""
        has_left = self.agent_steps and not self.is_cut
        return _PlayerState(self.pending if has_left else self.last_reward)


class PlayersEnvironment(BatchedEnvironment):
    """Games whose players are environments of the group: E slots are E / P games of P players.

    Follows "Players" in `seed_rl.types`: `done` and `truncated` are both set where a player is idle. A game
    in which nobody is to move is over; all of its players then have `info[Info.PLAYER_EPISODE]`. It begins
    again at once, but if players have last observations to show, at the next step.

    The seed of a game is that of its first player. A game that fails is replaced like any environment; its
    episodes are void, and players who have acted and are not out see their last observation once more.
    """

    def _makers(
        self, suite: Suite, seeds: Sequence[int], first_env: int
    ) -> Iterator[tuple[str, Callable[[int], Game]]]:
        size = start = 0
        while start < len(seeds):
            name = f"The game of environment {first_env + start}"
            yield name, functools.partial(make_game, suite, self._config, seeds[start])
            size = len(self._watched[0].env.players)
            if len(seeds) % size:
                raise ValueError(
                    f"The game has {size} players, each an environment of the group, but the group "
                    f"has {len(seeds)}; make --env_batch_size / --num_env_groups a multiple of {size}."
                )
            start += size

    def _spec_of(self, env: Any) -> EnvironmentSpec:
        return game_spec(env, self._config)

    def _prepare(self) -> None:
        self._size = self.spec.num_players
        self._players = [_PlayerState() for _ in range(self.num_envs)]
        self._must_reset = [False] * len(self._watched)  # Games that show last observations.

    def _reset(self, seeds: Sequence[int] | None, random_start_steps: int) -> None:
        if random_start_steps:
            raise ValueError("A game of several players has no random starts.")
        self._players = [_PlayerState() for _ in range(self.num_envs)]
        for game in range(len(self._watched)):
            self._begin(game, None if seeds is None else int(seeds[game * self._size]))

    def _step(self, actions: np.ndarray) -> list[dict[Any, Any]]:
        slots = [slot for slot, player in enumerate(self._players) if player.is_to_move]
        decoded = dict(zip(slots, self._decode(actions[slots]), strict=True)) if slots else {}
        outcomes: list[Any] = []
        with self._deadline.each():
            for game, watched in enumerate(self._watched):
                own = {
                    slot - game * self._size: decoded[slot] for slot in self._slots(game) if slot in decoded
                }
                outcomes.append(None if self._must_reset[game] else watched.step(own))
        return [info for game, outcome in enumerate(outcomes) for info in self._write_outcome(game, outcome)]

    def _slots(self, game: int) -> range:
        return range(game * self._size, (game + 1) * self._size)

    def _write_outcome(self, game: int, outcome: Any) -> list[dict[Any, Any]]:
        """Writes one game's step, and begins it anew if it must; returns the players' info dicts.

        The outcome is a `Frame`, or an error; None: the game must begin anew.
        """
        if outcome is None:
            self._begin(game)
            return [{} for _ in range(self._size)]
        slots, watched = self._slots(game), self._watched[game]
        players = self._players[slots.start : slots.stop]
        for player in players:
            player.agent_steps += player.is_to_move
        try:
            if isinstance(outcome, BaseException):
                raise outcome
            arrays = self._read(outcome)
        except BaseException as error:
            watched.failed("step", error, self._agent_steps)
            self._idle(game)
            self._show_again(slots)
            self._must_reset[game] = True
            return [{Info.EPISODE_IS_VOID: True} for _ in players]
        shows_last = self._write(game, outcome, arrays)
        if outcome.to_move:
            return [{} for _ in players]
        watched.ended()
        infos = [
            {**player.info, Info.PLAYER_EPISODE: (player.total, player.agent_steps)} for player in players
        ]
        self._must_reset[game] = shows_last
        if not shows_last:
            self._begin(game)
        return infos

    def _begin(self, game: int, seed: int | None = None) -> None:
        """Writes the first frame of a game, with what players had left of the one before."""
        for slot in self._slots(game):
            self._players[slot] = self._players[slot].next()
        self._must_reset[game] = False
        self._write(game, *self._start(self._watched[game], seed, lambda frame: (frame, self._read(frame))))

    def _read(self, frame: Frame) -> list[np.ndarray]:
        """Arrays `[N, ...]` of the frame's observations: those of players who are to move, then last ones."""
        observations = [*frame.to_move.values(), *frame.truncated.values()]
        return [read(observations) for read in self._readers] if observations else []

    def _write(self, game: int, frame: Frame, arrays: list[np.ndarray]) -> bool:
        """Writes the records of a game's players; returns whether one of them shows a last observation."""
        self._idle(game)
        start, shows_last = self._slots(game).start, False
        for index, reward in frame.rewards.items():
            player, info = self._players[start + index], frame.infos[index]
            player.pending += reward
            player.total += raw_reward(reward, info)
            if not player.is_out and (index in frame.truncated or index in frame.terminated):
                player.is_out, player.is_cut = True, index in frame.truncated
                player.info = owned(info, INFO_DEPTH)
        for row, index in enumerate((*frame.to_move, *frame.truncated)):
            player, is_last = self._players[start + index], index in frame.truncated
            if is_last and not player.agent_steps:
                continue
            for array, buffer in zip(arrays, self._buffers, strict=True):
                buffer[start + index] = array[row]
            is_first = not player.agent_steps
            reward = player.last_reward if is_first else player.pending
            player.last_reward, player.pending = 0.0, player.pending if is_first else 0.0
            self._write_ends(start + index, reward, is_first, is_last)
            player.is_to_move, shows_last = not is_last, shows_last or is_last
        return shows_last

    def _idle(self, game: int) -> None:
        """Makes all records of a game idle. Observations stay those that players have seen last."""
        slots = self._slots(game)
        for slot in slots:
            self._players[slot].is_to_move = False
            self._write_ends(slot, 0.0, True, True)

    def _show_again(self, slots: Sequence[int]) -> None:
        """Cuts the episodes of players who have acted and are not out; their observations stay."""
        for slot in slots:
            player = self._players[slot]
            if player.agent_steps and not player.is_out:
                player.is_out = player.is_cut = True
                self._write_ends(slot, 0.0, False, True)

    def _write_ends(self, slot: int, reward: float, done: bool, truncated: bool) -> None:
        self._reward[slot], self._done[slot], self._truncated[slot] = reward, done, truncated


def game_spec(game: Game, config: EnvironmentConfig) -> EnvironmentSpec:
    """The spec of a game's players; raises what `environment_spec` raises."""
    return environment_spec(game.spaces, config)._replace(num_players=len(game.players))


def make_game(suite: Suite, config: EnvironmentConfig, seed: int, failures: int = 0) -> Game:
    """The suite's game; one that replaces another, after so many failures, has another seed.

    Raises:
      ValueError: the suite refuses the configuration, or settings repeat actions or draw them at random.
      ImportError: the suite's engine is not installed.
    """
    for name, allowed in (("num_action_repeats", 1), ("random_start_steps", 0)):
        if getattr(config, name) != allowed:
            raise ValueError(
                f"--{name}={getattr(config, name)} is not possible with several players; use "
                f"--{name}={allowed}."
            )
    assert suite.make_game is not None
    return suite.make_game(config, derived_seed(seed, failures) if failures else seed)
