"""Games of several players that step together: makes records of what players get, as `seed_rl.types` says."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from seed_rl.environments.base import Info, Suite, raw_reward
from seed_rl.environments.batched import BatchedEnvironment, make_seeded
from seed_rl.environments.failures import Watched
from seed_rl.environments.reading import INFO_DEPTH, owned


@dataclasses.dataclass
class _PlayerState:
    """State of a player in the current episode."""

    owed: float = 0.0  # What its last episode that terminated has left for the first step of this one.
    pending: float = 0.0  # What it got since its last step.
    total: float = 0.0  # The return so far, of raw rewards.
    agent_steps: int = 0
    acts: bool = False  # Whether its newest record is a step whose action the game executes.
    is_out: bool = False
    is_cut: bool = False  # Whether it is out without termination.
    info: dict[Any, Any] = dataclasses.field(default_factory=dict)  # Of its last step, once it is out.


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
    ) -> Iterator[tuple[str, Callable[[int], Any]]]:
        start = 0
        while start < len(seeds):
            make = functools.partial(make_seeded, suite, self._config, seeds[start])
            yield f"The game of environment {first_env + start}", make
            self._size = len(self._watched[0].env.players)
            if len(seeds) % self._size:
                raise ValueError(
                    f"The game has {self._size} players, each an environment of the group, but the group has "
                    f"{len(seeds)}; make --env_batch_size / --num_env_groups a multiple of {self._size}."
                )
            start += self._size

    def _prepare(self) -> None:
        self._players = [_PlayerState() for _ in range(self.num_envs)]
        slots = (slice(start, start + self._size) for start in range(0, self.num_envs, self._size))
        self._games = list(zip(self._watched, slots, strict=True))

    def _reset(self, seeds: Sequence[int] | None, random_start_steps: int) -> None:
        if random_start_steps:
            raise ValueError("A game of several players has no random starts.")
        self._prepare()
        for watched, slots in self._games:
            self._begin(watched, slots, None if seeds is None else int(seeds[slots.start]))

    def _step(self, actions: np.ndarray) -> list[dict[Any, Any]]:
        acting = [slot for slot, player in enumerate(self._players) if player.acts]
        decoded = dict(zip(acting, self._decode(actions[acting]), strict=True)) if acting else {}
        outcomes = []
        with self._deadline.each():
            for watched, slots in self._games:
                own = {
                    slot - slots.start: decoded[slot] for slot in acting if slots.start <= slot < slots.stop
                }
                outcomes.append(watched.step(own) if own else None)
        outcomes_of = zip(self._games, outcomes, strict=True)
        return [info for game, outcome in outcomes_of for info in self._write_outcome(*game, outcome)]

    def _write_outcome(self, watched: Watched, slots: slice, outcome: Any) -> list[dict[Any, Any]]:
        """Writes a game's step, or an error, or if there is none a new game; returns players' info dicts."""
        players = self._players[slots]
        if outcome is None:
            self._begin(watched, slots)
            return [{} for _ in players]
        for player in players:
            player.agent_steps += player.acts
        try:
            if isinstance(outcome, BaseException):
                raise outcome
            results, arrays = self._read(outcome)
        except BaseException as error:
            watched.failed("step", error, self._agent_steps)
            self._idle(slots)
            for slot, player in enumerate(players, slots.start):
                if player.agent_steps and not player.is_out:
                    player.is_out = player.is_cut = True
                    self._done[slot] = False
            return [{Info.EPISODE_IS_VOID: True} for _ in players]
        self._write(slots, results, arrays)
        if any(player.acts for player in players):
            return [{} for _ in players]
        watched.ended()
        infos = [{**one.info, Info.PLAYER_EPISODE: (one.total, one.agent_steps)} for one in players]
        if self._done[slots].all():  # Nobody shows a last observation.
            self._begin(watched, slots)
        return infos

    def _begin(self, watched: Watched, slots: slice, seed: int | None = None) -> None:
        """Writes the start of a game. What players got without an action in the one before is no reward."""
        self._players[slots] = [
            _PlayerState(one.pending if one.agent_steps and not one.is_cut else one.owed)
            for one in self._players[slots]
        ]
        self._write(slots, *self._start(watched, seed, self._read))

    def _read(self, results: Mapping[int, Any]) -> tuple[Mapping[int, Any], list[np.ndarray]]:
        """A game's results, and arrays `[N, ...]` of the observations of the N that have not terminated."""
        seen = [observation for observation, _, terminated, *_ in results.values() if not terminated]
        return results, [read(seen) for read in self._readers] if seen else []

    def _write(self, slots: slice, results: Mapping[int, Any], arrays: list[np.ndarray]) -> None:
        """Writes the records of a game's players."""
        self._idle(slots)
        rows = zip(*arrays, strict=True)
        for index, (_, reward, terminated, truncated, info) in results.items():
            slot, row = slots.start + index, () if terminated else next(rows)
            player = self._players[slot]
            player.pending += float(reward)
            player.total += raw_reward(reward, info)
            if player.is_out:
                continue
            if terminated or truncated:
                player.is_out, player.is_cut, player.info = True, not terminated, owned(info, INFO_DEPTH)
                if terminated or not player.agent_steps:
                    continue
            for buffer, value in zip(self._buffers, row, strict=True):
                buffer[slot] = value
            if player.agent_steps:
                self._reward[slot], player.pending = player.pending, 0.0
            else:
                self._reward[slot], player.owed = player.owed, 0.0
            self._done[slot], self._truncated[slot] = not player.agent_steps, truncated
            player.acts = not truncated

    def _idle(self, slots: slice) -> None:
        """Makes all records of a game idle. Observations stay those that players have seen last."""
        for player in self._players[slots]:
            player.acts = False
        self._reward[slots], self._done[slots], self._truncated[slots] = 0.0, True, True
