"""Games of several players: one interface for PettingZoo's two, ParallelEnv and AECEnv.

They are told apart by their methods, so environments of other packages may have the same; PettingZoo itself
is not imported.
"""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from seed_rl.environments.action_mask import masked_observations
from seed_rl.environments.actions import shown
from seed_rl.environments.failures import Fault, foreign
from seed_rl.environments.reading import checked_step, owned, reset_outcome
from seed_rl.environments.specs import Spaces
from seed_rl.types import ACTION_MASK

# The key of a player's number in its observation: float32 `[P]`, 1 at its index and else 0.
PLAYER_ID = "player_id"

_METHODS = ("reset", "step", "observation_space", "action_space")


class HasPlayersError(ValueError):
    """An environment has several players where one for a single player is needed; one sentence."""


@dataclasses.dataclass
class Frame:
    """Results of a game's step, or reset, for its players, who are counted from 0.

    Attributes:
      to_move: observations of those who act next.
      truncated: last observations of those whose episode is truncated.
      terminated: those whose episode terminates.
      rewards: what players got, which those who are not to move may get with a later frame.
      infos: info dicts of players.
    """

    to_move: dict[int, Any] = dataclasses.field(default_factory=dict)
    truncated: dict[int, Any] = dataclasses.field(default_factory=dict)
    terminated: set[int] = dataclasses.field(default_factory=set)
    rewards: dict[int, float] = dataclasses.field(default_factory=dict)
    infos: dict[int, dict[Any, Any]] = dataclasses.field(default_factory=dict)


class Game(abc.ABC):
    """A game whose players have equal spaces. A player who is out stays out until the next reset.

    Attributes:
      env: PettingZoo's environment.
      name: what it is called.
      players: names of the P players, in the order of `possible_agents`.
      observation_space: of each player, with its action mask and its number, if it has these.
      action_space: of each player.
      spaces: both.
    """

    def __init__(self, env: Any, seed: int, has_player_id: bool = False):
        """Resets the environment, which may only then know its players and show masks.

        Raises:
          ValueError: there is no player, or their spaces differ or are missing.
        """
        self.env = env
        infos = foreign(self._restart, seed)[1]
        metadata = getattr(env, "metadata", None)
        given = metadata.get("name") if isinstance(metadata, dict) else None
        self.name = str(given or type(getattr(env, "unwrapped", env)).__name__)
        self.players = list(getattr(env, "possible_agents", None) or env.agents)
        if not self.players:
            raise ValueError("The environment has no player in possible_agents; list its players there.")
        self._out: set[Any] = set()  # Players whose episode has ended.
        self._in: set[Any] = set()
        space, self.action_space = (self._common_space(name) for name in _METHODS[2:])
        masks = (info for info in infos.values() if isinstance(info, dict) and ACTION_MASK in info)
        self._with_mask = masked_observations(space, self.action_space, next(masks, None))
        space = self._with_mask.space if self._with_mask else space
        self._ids = np.eye(len(self.players), dtype=np.float32) if has_player_id else None
        self.observation_space = space if self._ids is None else self._with_id(space)
        self.spaces = Spaces(self.observation_space, self.action_space)

    def reset(self, seed: int | None = None) -> tuple[Frame, dict[Any, Any]]:
        """Starts a game.

        Raises:
          Fault: no player is to move, or the environment contradicts itself.
        """
        returned, _ = self._restart(seed)
        self._out, self._in = set(), set(self._agents())
        frame = self._frame(returned)
        if not frame.to_move:
            raise Fault("left no player in agents, so that nobody is to move")
        return frame, {}

    @abc.abstractmethod
    def step(self, actions: Mapping[int, Any]) -> Frame:
        """Takes the actions of the players who are to move. The game is over if then nobody is.

        Raises:
          Fault: the environment contradicts itself.
        """

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()

    @abc.abstractmethod
    def _restart(self, seed: int | None) -> tuple[Any, Mapping[Any, Any]]:
        """Resets the environment; returns what it gives, in the form of a step, and info dicts by name."""

    @abc.abstractmethod
    def _frame(self, returned: Any) -> Frame:
        """The frame in what the environment's step has returned."""

    def _common_space(self, name: str) -> spaces.Space:
        """The players' space of this name, which is the name of a method."""
        first: spaces.Space | None = None
        for player in self.players:
            space = foreign(getattr(self.env, name), player)
            if not isinstance(space, spaces.Space):
                raise ValueError(
                    f"The {name} of the player {player} is of type {type(space).__name__}; it must be one of "
                    "gymnasium.spaces."
                )
            first = space if first is None else first
            if space != first:
                raise ValueError(
                    f"Players share one network, so their spaces must be equal, but the {name} of "
                    f"{self.players[0]} is {shown(first)} and that of {player} is {shown(space)}; wrap the "
                    "environment so that all are equal, for instance with padding."
                )
        assert first is not None
        return first

    def _with_id(self, space: spaces.Space) -> spaces.Dict:
        inner = dict(space.spaces) if isinstance(space, spaces.Dict) else {"observation": space}
        if PLAYER_ID in inner:
            raise ValueError(f"Observations have their own entry {PLAYER_ID}; leave out --{PLAYER_ID}.")
        return spaces.Dict({**inner, PLAYER_ID: spaces.Box(0, 1, (len(self.players),), np.float32)})

    def _agents(self) -> list[Any]:
        """The names in `agents`, checked."""
        agents = list(self.env.agents)
        if strange := [name for name in agents if name not in self.players]:
            raise Fault(f"left {strange[0]!r} in agents, who is not in possible_agents ({self.players})")
        return agents

    def _add(self, frame: Frame, player: Any, observation: Any, *step: Any) -> bool:
        """Adds what a player got: reward, terminated, truncated, info. Returns whether the player is out."""
        index = self.players.index(player)
        try:
            _, reward, terminated, truncated, info = checked_step((None, *step))
            frame.rewards[index], frame.infos[index] = float(reward), info
            if terminated:
                frame.terminated.add(index)
            elif player not in self._out:
                found = self._observed(index, observation, info, bool(truncated))
                (frame.truncated if truncated else frame.to_move)[index] = found
        except Fault as fault:
            raise Fault(f"{fault} (player {player})") from fault.__cause__
        is_out = bool(terminated or truncated)
        (self._out if is_out else self._in).add(player)
        return is_out

    def _observed(self, index: int, observation: Any, info: dict[Any, Any], is_last: bool) -> Any:
        """A player's observation, in memory of its own."""
        observation = owned(observation)
        if self._with_mask:
            observation = self._with_mask(observation, info, is_last)
        if self._ids is None:
            return observation
        found = observation if isinstance(observation, Mapping) else {"observation": observation}
        return {**found, PLAYER_ID: self._ids[index]}


class _ParallelGame(Game):
    """A ParallelEnv: all who are in `agents` act at the same time."""

    def step(self, actions: Mapping[int, Any]) -> Frame:
        return self._frame(self.env.step({self.players[index]: one for index, one in actions.items()}))

    def _restart(self, seed: int | None) -> tuple[Any, Mapping[Any, Any]]:
        observations, infos = reset_outcome(self.env.reset(seed=seed))
        nothing = dict.fromkeys(self.env.agents, 0)
        return (observations, nothing, nothing, nothing, infos), infos

    def _frame(self, returned: Any) -> Frame:
        if not isinstance(returned, tuple | list) or len(returned) != 5:
            raise Fault("returned no five dicts (observations, rewards, terminations, truncations, infos)")
        if wrong := [part for part in returned if not isinstance(part, Mapping)]:
            raise Fault(
                f"returned {type(wrong[0]).__name__} among its results, which must be dicts by player"
            )
        observations, *parts, infos = returned
        frame, agents = Frame(), set(self._agents())
        for player in self.players:
            if player in self._out:
                if player in parts[0]:  # What its team gets, for instance.
                    self._add(frame, player, None, parts[0][player], True, False, {})
                continue
            if player not in self._in | agents:
                continue
            given = [
                _of(part, player, name)
                for part, name in zip(parts, ("reward", "termination", "truncation"), strict=True)
            ]
            observation = None if given[1] else _of(observations, player, "observation")
            is_out = self._add(frame, player, observation, *given, infos.get(player, {}))
            if not is_out and player not in agents:
                raise _vanished(player)
        return frame


class _TurnGame(Game):
    """An AECEnv: one player after the other acts, `agent_selection`."""

    def step(self, actions: Mapping[int, Any]) -> Frame:
        (action,) = actions.values()
        return self._frame(self.env.step(action))

    def _restart(self, seed: int | None) -> tuple[Any, Mapping[Any, Any]]:
        return self.env.reset(seed=seed), self.env.infos

    def _frame(self, returned: Any) -> Frame:
        """Takes players who are out from the game, until another one is to move or nobody is left."""
        frame, env = Frame(), self.env
        while agents := self._agents():
            player = env.agent_selection
            if player not in agents:
                raise Fault(f"left {player!r} as agent_selection, who is not in agents ({agents})")
            if not self._add(frame, player, *env.last()):
                break
            env.step(None)
            if player in env.agents:
                raise Fault(
                    f"left {player!r} in agents after step(None), though the player's episode had ended"
                )
        self._in.update(agents)
        for player in sorted(self._in - self._out - set(agents), key=self.players.index):
            ends = [flags.get(player, False) for flags in (env.terminations, env.truncations)]
            reward = getattr(env, "_cumulative_rewards", {}).get(player, 0.0)
            observation = env.observe(player) if ends == [False, True] else None
            if not any(ends) or not self._add(frame, player, observation, reward, *ends, {}):
                raise _vanished(player)
        return frame


def refuse_players(env: Any) -> None:
    """Raises HasPlayersError if an environment is one of PettingZoo's."""
    if _has_players(env):
        raise HasPlayersError(
            "The function makes an environment of PettingZoo; name it as --environment=pettingzoo "
            "--game=module:function."
        )


def _has_players(env: Any) -> bool:
    return all(callable(getattr(env, name, None)) for name in _METHODS)


def as_game(env: Any, seed: int, has_player_id: bool = False) -> Game:
    """The game that an environment is, after a first reset with the seed.

    Raises:
      ValueError: it is neither a ParallelEnv nor an AECEnv, it has no player, or its players' spaces differ.
    """
    if not _has_players(env):
        raise ValueError(
            f"The environment must be a ParallelEnv or an AECEnv of PettingZoo, and is of type "
            f"{type(env).__name__}; a gymnasium.Env is for --environment=gym."
        )
    kind = _TurnGame if callable(getattr(env, "last", None)) else _ParallelGame
    return kind(env, seed, has_player_id)


def _of(values: Mapping[Any, Any], player: Any, name: str) -> Any:
    if player not in values:
        raise Fault(f"returned no {name} for the player {player}")
    return values[player]


def _vanished(player: Any) -> Fault:
    return Fault(f"left {player!r} out of agents, but neither terminated nor truncated the player's episode")
