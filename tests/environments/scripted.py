"""Games of several players whose every move is in a script, and their records in short form."""

from typing import ClassVar, NamedTuple

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import NO_FAILURES
from seed_rl.environments.games import Game
from seed_rl.environments.players import PlayersEnvironment

SPACE = spaces.Box(-1.0, 99.0, (1,), np.float32)
ACTIONS = spaces.Discrete(3)


class Move(NamedTuple):
    """What a step does: rewards by player, whose episodes end, and who acts next in a game of turns."""

    rewards: dict
    terminated: str = ""
    truncated: str = ""
    next: str = ""


class _Scripted:
    """Players are letters; each sees how many steps the game has had. `replaced` changes results in step 1.

    Attributes:
      acted: the actions that the game got, by player; of all episodes.
      seeds: those of the resets.
    """

    metadata: ClassVar = {"name": "scripted"}
    render_mode = None

    def __init__(self, script, players="ab", present=None, replaced=None, spaces_of=None):
        self.possible_agents, self.present = list(players), present or players
        self.script, self.replaced, self.spaces_of = script, replaced, spaces_of or {}
        self.acted, self.seeds, self.closed = [], [], False

    def observation_space(self, agent):
        return self.spaces_of.get(agent, SPACE)

    def action_space(self, agent):
        return ACTIONS

    def close(self):
        self.closed = True

    def _start(self, seed):
        self.seeds.append(seed)
        self.agents, self.time = list(self.present), 0

    def seen(self):
        return np.array([self.time], np.float32)


class Together(_Scripted, ParallelEnv):
    """All act at the same time."""

    def reset(self, seed=None, options=None):
        self._start(seed)
        return {agent: self.seen() for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        self.acted.append(actions)
        move = self.script[self.time]
        self.time += 1
        acting = list(self.agents)
        self.agents = [one for one in acting if one not in move.terminated + move.truncated]
        result = [
            {one: self.seen() for one in acting},
            dict.fromkeys(acting, 0) | move.rewards,
            {one: one in move.terminated for one in acting},
            {one: one in move.truncated for one in acting},
            {one: {"metrics": {"time": self.time}} for one in acting},
        ]
        return self.replaced(self, result) if self.replaced and self.time == 1 else tuple(result)


class Turns(_Scripted, AECEnv):
    """One acts after the other; the first player begins."""

    def reset(self, seed=None, options=None):
        self._start(seed)
        self.agent_selection = self.agents[0]
        self.rewards, self._cumulative_rewards = (dict.fromkeys(self.agents, 0) for _ in range(2))
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.infos = {one: {} for one in self.agents}

    def observe(self, agent):
        return self.seen()

    def step(self, action):
        if self.terminations[self.agent_selection] or self.truncations[self.agent_selection]:
            return self._was_dead_step(action)
        self.acted.append({self.agent_selection: action})
        move = self.script[self.time]
        self.time += 1
        self._cumulative_rewards[self.agent_selection] = 0
        self._clear_rewards()
        self.rewards |= move.rewards
        self._accumulate_rewards()
        self.terminations |= dict.fromkeys(move.terminated, True)
        self.truncations |= dict.fromkeys(move.truncated, True)
        self.agent_selection = move.next or self.agent_selection
        if self.replaced and self.time == 1:
            self.replaced(self, None)
        elif self.agents:
            self._deads_step_first()


def batch_of(*envs, tolerance=NO_FAILURES, size=None, config=EnvironmentConfig()):  # noqa: B008 (immutable)
    """A batch of these games, or of `size` environments; more games than these are made from the last one."""
    left = list(envs)

    def make(config, seed):
        return Game(left.pop(0) if len(left) > 1 else left[0], config, seed)

    suite = Suite(EnvironmentConfig, make)
    size = size or sum(len(env.possible_agents) for env in envs)
    return PlayersEnvironment(suite, config, list(range(size)), tolerance, first_env=10)


def records_of(output):
    """The records as text: `first`, `step` or `last`, reward and what is seen; `idle`."""
    found = []
    for reward, done, truncated, (seen,) in zip(*output[:3], output.observation, strict=True):
        kind = {(0, 0): "step", (1, 0): "first", (0, 1): "last", (1, 1): "idle"}[int(done), int(truncated)]
        assert kind != "idle" or reward == 0
        found.append(kind if kind == "idle" else f"{kind} {reward:g} at {seen:g}")
    return found


def play(batch, agent_steps):
    """The records of a reset and so many steps, and the info dicts of these steps."""
    records, infos = [records_of(batch.reset())], []
    for _ in range(agent_steps):
        output, found = batch.step(np.ones(batch.num_envs, np.int32))
        records.append(records_of(output))
        infos.append(found)
    return records, infos
