"""Games of several players: one interface for PettingZoo's two, ParallelEnv and AECEnv.

They are told apart by their methods, so environments of other packages may have the same; PettingZoo itself
is not imported.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from seed_rl.environments.action_mask import entries_of, masked_observations
from seed_rl.environments.actions import shown
from seed_rl.environments.base import EnvironmentConfig
from seed_rl.environments.failures import Fault, foreign
from seed_rl.environments.reading import StepResult, checked_step, owned, reset_outcome
from seed_rl.types import ACTION_MASK

# The key of a player's number in its observation: float32 `[P]`, 1 at its index and else 0.
PLAYER_ID = "player_id"

_METHODS = ("reset", "step", "observation_space", "action_space")


class HasPlayersError(ValueError):
    """An environment has several players where one for a single player is needed; one sentence."""


class Game:
    """A game whose players, counted from 0, have equal spaces.

    A step, and a reset, gives results by player: of those who act next, of those whose episode ends, and of
    those who are out but get a reward. A player who is out stays out until the next reset.

    Attributes:
      env: PettingZoo's environment.
      name: what it is called.
      players: names of the P players, in the order of `possible_agents`.
      observation_space: of each player, with its action mask and its number, if it has these.
      action_space: of each player.
      close: closes the environment.
    """

    def __init__(self, env: Any, config: EnvironmentConfig, seed: int, has_player_id: bool = False):
        """Resets the environment, which may only then know its players and show masks.

        Raises:
          ValueError: it is neither a ParallelEnv nor an AECEnv, it has no player, its players' spaces differ,
            or settings repeat actions or draw them at random.
        """
        if not _has_players(env):
            raise ValueError(
                f"The environment must be a ParallelEnv or an AECEnv of PettingZoo, and is of type "
                f"{type(env).__name__}; a gymnasium.Env is for --environment=gym."
            )
        config.refuse_own_actions("is not possible with several players")
        self.env, self.close, self._has_turns = env, env.close, callable(getattr(env, "last", None))
        infos = foreign(self._restart, seed)[-1]
        given = (getattr(env, "metadata", None) or {}).get("name")
        self.name = str(given or type(getattr(env, "unwrapped", env)).__name__)
        self.players = list(getattr(env, "possible_agents", None) or env.agents)
        if not self.players:
            raise ValueError("The environment has no player in possible_agents; list its players there.")
        self._out: set[Any] = set()  # Players whose episode has ended.
        self.observation_space, self.action_space = map(self._common_space, _METHODS[2:])
        masks = (info for info in infos.values() if isinstance(info, dict) and ACTION_MASK in info)
        self._with_mask = masked_observations(self, next(masks, None))
        if self._with_mask:
            self.observation_space = self._with_mask.space
        self._ids = np.eye(len(self.players), dtype=np.float32) if has_player_id else None
        if self._ids is not None:
            if PLAYER_ID in (inner := entries_of(self.observation_space)):
                raise ValueError(f"Observations have their own entry {PLAYER_ID}; leave out --{PLAYER_ID}.")
            own = spaces.Box(0, 1, (len(self.players),), np.float32)
            self.observation_space = spaces.Dict({**inner, PLAYER_ID: own})

    def reset(self, seed: int | None = None) -> tuple[dict[int, StepResult], dict[Any, Any]]:
        """Starts a game; returns results by player, and an empty info dict.

        Raises:
          Fault: no player is to move, or the environment contradicts itself.
        """
        returned = self._restart(seed)
        self._out = set()
        results = self._results((), returned)
        if all(one.terminated or one.truncated for one in results.values()):
            raise Fault("left no player in agents, so that nobody is to move")
        return results, {}

    def step(self, actions: Mapping[int, Any]) -> dict[int, StepResult]:
        """Takes the actions of the players who are to move. The game is over if then nobody is.

        Raises:
          Fault: the environment contradicts itself.
        """
        before = list(self.env.agents)
        if self._has_turns:
            return self._results(before, self.env.step(*actions.values()))
        return self._results(before, self.env.step({self.players[i]: one for i, one in actions.items()}))

    def _restart(self, seed: int | None) -> tuple[Mapping[Any, Any], ...]:
        """Resets the environment; returns what a step in which nothing happens would."""
        returned = self.env.reset(seed=seed)
        if self._has_turns:
            return {}, {}, {}, {}, self.env.infos
        observations, infos = reset_outcome(returned)
        nothing = dict.fromkeys(self.env.agents, 0)
        return observations, nothing, nothing, nothing, infos

    def _results(self, before: Collection[Any], returned: Any) -> dict[int, StepResult]:
        """Results of those who were in `agents` before, and who are now."""
        results = {}
        for player, step in self._turns(before) if self._has_turns else self._together(before, returned):
            index = self.players.index(player)
            try:
                result = checked_step(step)
                if result.terminated or result.truncated:
                    self._out.add(player)
                elif player not in self.env.agents:
                    raise Fault(
                        "left the player out of agents, but neither terminated nor truncated its episode"
                    )
                if not result.terminated:
                    if result.observation is None:
                        raise Fault("returned no observation")
                    result = result._replace(observation=self._observed(index, result))
            except Fault as fault:
                raise Fault(f"{fault} (player {player})") from fault.__cause__
            results[index] = result
        return results

    def _together(self, before: Collection[Any], returned: Any) -> Iterator[tuple[Any, Any]]:
        """Names and steps of players who act at the same time, from what `step` returned."""
        if (
            not isinstance(returned, tuple | list)
            or [isinstance(one, Mapping) for one in returned] != [True] * 5
        ):
            raise Fault("returned no five dicts (observations, rewards, terminations, truncations, infos)")
        rewards, infos = returned[1], returned[4]
        playing = {*before, *self._agents()}
        for player in self.players:
            if player not in self._out and player in playing:
                yield player, (*(part.get(player) for part in returned[:4]), infos.get(player, {}))
            elif player in self._out and player in rewards:  # What its team gets, for instance.
                yield player, (None, rewards[player], True, False, {})

    def _turns(self, before: Collection[Any]) -> Iterator[tuple[Any, Any]]:
        """Names and steps of players who are out, whom it takes from the game, and of the one to move."""
        env = self.env
        while agents := self._agents():
            player = env.agent_selection
            if player not in agents:
                raise Fault(f"left {player!r} as agent_selection, who is not in agents ({agents})")
            last = env.last()
            yield player, last
            if not (last[2] or last[3]):
                break
            env.step(None)
            if player in env.agents:
                raise Fault(f"left {player!r} in agents after step(None), though its episode had ended")
        for player in before:  # Whom the environment has taken away itself.
            if player not in self._out and player not in env.agents:
                ends = [flags.get(player, False) for flags in (env.terminations, env.truncations)]
                observation = env.observe(player) if ends == [False, True] else None
                yield player, (observation, env._cumulative_rewards.get(player, 0.0), *ends, {})

    def _agents(self) -> list[Any]:
        """The names in `agents`, checked."""
        agents = list(self.env.agents)
        if strange := [name for name in agents if name not in self.players]:
            raise Fault(f"left {strange[0]!r} in agents, who is not in possible_agents ({self.players})")
        return agents

    def _common_space(self, name: str) -> spaces.Space:
        """The players' space of this name, which is the name of a method."""
        first = foreign(getattr(self.env, name), self.players[0])
        for player in self.players[1:]:
            if (space := foreign(getattr(self.env, name), player)) != first:
                raise ValueError(
                    f"Players share one network, so their spaces must be equal, but the {name} of "
                    f"{self.players[0]} is {shown(first)} and that of {player} is {shown(space)}; wrap the "
                    "environment so that all are equal, for instance with padding."
                )
        return first

    def _observed(self, index: int, result: StepResult) -> Any:
        """A player's observation, in memory of its own."""
        observation = owned(result.observation)
        if self._with_mask:
            observation = self._with_mask(observation, result.info, bool(result.truncated))
        return observation if self._ids is None else {**entries_of(observation), PLAYER_ID: self._ids[index]}


def refuse_players(env: Any) -> None:
    """Raises HasPlayersError if an environment is one of PettingZoo's."""
    if _has_players(env):
        raise HasPlayersError(
            "The function makes an environment of PettingZoo; name it as --environment=pettingzoo "
            "--game=module:function."
        )


def _has_players(env: Any) -> bool:
    return all(callable(getattr(env, name, None)) for name in _METHODS)
