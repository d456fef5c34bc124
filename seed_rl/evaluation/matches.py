"""Games of several players between sides, such as trained policies: played, and told who won."""

import contextlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from seed_rl.algorithms.policy import Acted, Policy
from seed_rl.environments.base import EnvironmentConfig, Info, Suite
from seed_rl.environments.batched import empty_output
from seed_rl.environments.making import make_batch
from seed_rl.evaluation.load import PlayConfig, Subject
from seed_rl.metrics.episodes import of_info
from seed_rl.ops import draws
from seed_rl.seeds import derived_seed
from seed_rl.types import ArraySpec, EnvOutput, Nest

_NORMAL_QUANTILE = 1.959964  # Of a 95% interval.


class Side(Protocol):
    """Side of a game: acts for one player, or for several; a function will do."""

    def __call__(self, env: EnvOutput, rows: np.ndarray, /) -> np.ndarray:
        """Chooses the actions of some slots.

        Slot e is of player `e % P` in game `e // P` of those played at the same time. `env.done` marks a
        player's first step of a game; before it, another side may have had the slot.

        Args:
          env: the newest records of all E slots, `[E, ...]`, which must not be changed. Observations have the
            form of the environment's spec, so bools are packed: `np.unpackbits(x, axis=-1, count=n)`.
          rows: the side's own slots that act now, int `[N]`, N >= 1, ascending. None of them is idle, or at
            the end of an episode that was cut short.

        Returns:
          Their actions, `[N, ...]`, as in the action spec.
        """


class PlayedGame(NamedTuple):
    """A game that was played to its end; the first side is the one that is evaluated.

    Attributes:
      number: determines the seed, together with that of the evaluation, and the sides' places; counts from 0.
      seed: that of the environment's reset.
      returns: of each player.
      agent_steps: of all players together.
      players: those that the first side acted for.
      figures: those of the environment's own, of the first of these players; not checked yet.
    """

    number: int
    seed: int
    returns: tuple[float, ...]
    agent_steps: int
    players: tuple[int, ...]
    figures: Mapping[str, float] = {}

    @property
    def episode_return(self) -> float:
        """Mean return of the first side's players."""
        return float(np.mean([self.returns[player] for player in self.players]))

    @property
    def score(self) -> float:
        """1 if the first side's return is higher than all others, 0.5 if it equals the highest, else 0."""
        own = self.episode_return
        highest = max(x for player, x in enumerate(self.returns) if player not in self.players)
        return 1.0 if own > highest else 0.5 if own == highest else 0.0


class PolicySide:
    """Side whose actions a policy chooses; keeps its recurrent states and last actions, one for each slot."""

    def __init__(self, policy: Policy, action: ArraySpec, env_id: int, greedy: bool, seed: int):
        """A side whose draws follow from a seed; the policy gets `env_id` for all slots."""
        choose = policy.act_greedy if greedy else policy.act

        def act(seed: tf.Tensor, *inputs: Any) -> Acted:
            with draws.seeded(seed):
                return choose(*inputs)

        self._act = tf.function(act, autograph=False, reduce_retracing=True)
        self._policy, self._action, self._env_id = policy, action, env_id
        self._seed, self._calls = seed, 0
        self._memory: Nest = None  # Last actions and states, arrays `[E, ...]`.

    def __call__(self, env: EnvOutput, rows: np.ndarray) -> np.ndarray:
        """The actions of these slots; the memory of all others stays as it is."""
        slots = len(env.done)
        if self._memory is None or len(self._memory[0]) != slots:
            state = tf.nest.map_structure(lambda x: x.numpy(), self._policy.initial_state(slots))
            self._memory = self._action.zeros(slots), state
        picked = tf.nest.map_structure(lambda x: tf.constant(x[rows]), (env, self._memory))
        (own, (prev_action, state)), env_ids = picked, tf.fill([len(rows)], self._env_id)
        self._calls += 1
        output, state = self._act(tf.constant([self._seed, self._calls]), prev_action, own, state, env_ids)
        chosen = output.action, state
        for kept, new in zip(tf.nest.flatten(self._memory), tf.nest.flatten(chosen), strict=True):
            kept[rows] = new
        return output.action.numpy()


def policy_sides(subject: Subject, opponent: Subject | None, config: PlayConfig) -> list[Side]:
    """The sides of game 0: the subject for player 0, and for all others the opponent, if there is one."""

    def side(one: Subject, number: int) -> PolicySide:
        seed = derived_seed(config.seed, 0, number)
        return PolicySide(one.policy, one.probed.spec.action, one.evaluation_env_id, config.greedy, seed)

    first = side(subject, 0)
    return [first, *[side(opponent, 1) if opponent else first] * (subject.num_players - 1)]


def play_games(
    suite: Suite, environment_config: EnvironmentConfig, sides: Sequence[Side], config: PlayConfig
) -> Iterator[PlayedGame]:
    """Plays games for P players between sides, and yields each as it ends.

    G = `num_envs // P` games (at least one) are played at the same time, in E = G P slots. Games are assigned
    to the slots in advance, so that short ones do not count more often than long ones. The same settings,
    seed and sides give the same games. A game that is void because its environment failed is played again,
    from another start. No more agent steps are played than `max_agent_steps`, of all players together.

    Args:
      suite: that of the game.
      environment_config: its settings.
      sides: of players 0 to P - 1 in game 0. In each game the sides move on by one player: in game k, player
        p is played by `sides[(p - k) % P]`. A side may be there several times.
      config: number of games, seed, and others.

    Raises:
      ValueError: the game is not for P players, or the suite refuses the configuration.
      ImportError: the suite's engine is not installed.
      EnvironmentFailedError: an environment failed too often. Every game that ended before was yielded.
    """
    players, games = len(sides), config.episodes_asked or sys.maxsize
    size = min(max(1, config.num_envs // players), games)
    with contextlib.ExitStack() as stack:
        series = []
        for index in range(size):
            numbers = iter(range(index, games, size))
            series.append(_Series(suite, environment_config, sides, numbers, config, index * players))
            stack.callback(series[-1].batch.close)
        spec = series[0].batch.spec
        if spec.num_players != players:
            raise ValueError(
                f"There are {players} sides for a game of {spec.num_players} players; give one for each."
            )
        env = empty_output(spec, size * players)
        for index, one in enumerate(series):
            own = slice(index * players, (index + 1) * players)
            one.batch.write_to(tf.nest.map_structure(lambda x, own=own: x[own], env))
            one.begin()
        distinct = list({id(side): side for side in sides}.values())
        nobody: list[Side | None] = [None] * players
        steps_left = config.max_agent_steps or sys.maxsize
        while any(one.sides for one in series):
            acts_for = [side for one in series for side in one.sides or nobody]
            acts = ~env.truncated & [side is not None for side in acts_for]
            steps_left -= int(np.count_nonzero(acts))
            if steps_left < 0:
                return
            actions = spec.action.zeros(size * players)
            for side in distinct:
                rows = np.flatnonzero(acts & [one is side for one in acts_for])
                if len(rows):
                    actions[rows] = side(env, rows)
            for one, chosen in zip(series, np.split(actions, size), strict=True):
                if one.sides:
                    yield from one.step(chosen)


class _Series:
    """The games that are assigned to P slots, one after another.

    Attributes:
      batch: their environment.
      sides: of each player of the game that is played; none after the last one.
    """

    def __init__(
        self,
        suite: Suite,
        environment_config: EnvironmentConfig,
        sides: Sequence[Side],
        numbers: Iterator[int],
        config: PlayConfig,
        first_env: int,
    ):
        self._of_first_game, self._numbers, self._seed = sides, numbers, config.seed
        seeds = [derived_seed(config.seed, first_env + player) for player in range(len(sides))]
        self.batch = make_batch(suite, environment_config, seeds, config.failures, first_env)
        self.sides: list[Side] = []
        self._game = PlayedGame(0, 0, (), 0, ())

    def begin(self) -> None:
        """Starts the next game, if there is one."""
        self.sides, number = [], next(self._numbers, None)
        if number is None:
            return
        order = self._of_first_game
        self.sides = [order[(player - number) % len(order)] for player in range(len(order))]
        seed = derived_seed(self._seed, number)
        players = tuple(player for player, side in enumerate(self.sides) if side is order[0])
        self._game = PlayedGame(number, seed, (), 0, players)
        self.batch.reset([seed] * len(order))

    def step(self, actions: np.ndarray) -> Iterator[PlayedGame]:
        """Takes an agent step, `[P, ...]`; yields the game if it ends, and starts the next one."""
        _, infos = self.batch.step(actions)
        ended = [info[Info.PLAYER_EPISODE] for info in infos if Info.PLAYER_EPISODE in info]
        if ended:
            returns, steps = zip(*ended, strict=True)
            own = of_info(infos[self._game.players[0]])
            yield self._game._replace(returns=tuple(map(float, returns)), agent_steps=sum(steps), figures=own)
            self.begin()


def scored(games: Sequence[PlayedGame]) -> dict[str, float]:
    """Wins, draws and losses of the first side; `score` is the share of games won, and half of those drawn.

    `score_low` and `score_high` bound Wilson's 95% interval of the score, which is a little wide with draws.
    """
    each = [game.score for game in games]
    share = float(np.mean(each))
    low, high = wilson_interval(share, len(each))
    counts = {name: each.count(value) for name, value in (("wins", 1.0), ("draws", 0.5), ("losses", 0.0))}
    return {**counts, "score": share, "score_low": low, "score_high": high}


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95% interval (1927) of a probability, from a share of `count` independent trials."""
    z = _NORMAL_QUANTILE**2 / count
    centre, half = share + z / 2, math.sqrt(z * (share * (1 - share) + z / 4))
    return (centre - half) / (1 + z), (centre + half) / (1 + z)
