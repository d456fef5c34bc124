"""Episodes and games, played between sides, such as trained policies; and who won."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import tensorflow as tf

from seed_rl.environments.base import EnvironmentConfig, Info, Suite
from seed_rl.environments.batched import empty_output
from seed_rl.evaluation.agent import PlayedEpisode, PolicySide, Share
from seed_rl.evaluation.load import PlayConfig, Subject
from seed_rl.metrics.episodes import of_info
from seed_rl.seeds import derived_seed
from seed_rl.types import EnvOutput

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
          rows: the side's own slots that act now, int `[N]`, N >= 1, ascending.

        Returns:
          Their actions, `[N, ...]`, as in the action spec.
        """


def policy_sides(subjects: Sequence[Subject], config: PlayConfig) -> list[Side]:
    """The sides of game 0: the first subject for player 0, and for all others the last one."""
    sides = []
    for number, one in enumerate(subjects):
        given = one.policy, one.probed.spec.action, one.evaluation_env_id, config.greedy
        sides.append(PolicySide(*given, derived_seed(config.seed, 0, number)))
    return [sides[0], *sides[-1:] * (subjects[0].probed.spec.num_players - 1)]


def play_games(
    suite: Suite, environment_config: EnvironmentConfig, sides: Sequence[Side], config: PlayConfig
) -> Iterator[PlayedEpisode]:
    """Plays games for P players, or episodes if P is 1, between sides, and yields each as it ends.

    G = `num_envs // P` games (at least one) are played at the same time, in E = G P slots. Games are assigned
    to the slots in advance, so that short ones do not count more often than long ones. The same settings,
    seed and sides give the same games. Another game is played for each that is void because its environment
    failed. No more agent steps are played than `max_agent_steps`, of all players together; what is unfinished
    then is dropped.

    Args:
      suite: that of the game.
      environment_config: its settings.
      sides: of players 0 to P - 1 in game 0. In each game the sides move on by one player: in game k, player
        p is played by `sides[(p - k) % P]`. A side may be there several times.
      config: number of games, seed, and others.

    Raises:
      ValueError: the game is not for P players, the suite refuses the configuration, or the environments have
        different spaces.
      ImportError: the suite's engine is not installed.
      EnvironmentFailedError: an environment failed too often. Every game that ended before was yielded.
    """
    players, games = len(sides), config.episodes_asked or sys.maxsize
    size = min(max(1, config.num_envs // players), games)
    share_of = _GameShare if environment_config.has_players else Share
    with contextlib.ExitStack() as stack:
        shares = []
        for index in range(size):
            shares.append(share_of(suite, environment_config, sides, range(index, games, size), config))
            stack.callback(shares[-1].batch.close)
        spec = shares[0].batch.spec
        if spec.num_players != players:
            raise ValueError(
                f"There are {players} sides for a game of {spec.num_players} players; give one for each."
            )
        yield from _played(shares, config.max_agent_steps or sys.maxsize)


def _played(shares: Sequence[Share], steps_left: int) -> Iterator[PlayedEpisode]:
    """Plays what the shares have, up to a number of agent steps; raises what `play_games` raises."""
    spec, players = shares[0].batch.spec, len(shares[0].sides)
    env = empty_output(spec, len(shares) * players)
    for index, share in enumerate(shares):
        if share.batch.spec != spec:
            raise ValueError(
                f"Environment {index * players} has {share.batch.spec}, but environment 0 has {spec}; "
                "environments that play together must have equal spaces."
            )
        own = slice(index * players, (index + 1) * players)
        share.batch.write_to(tf.nest.map_structure(lambda x, own=own: x[own], env))
        share.begin()
    while any(share.left for share in shares):
        # A player whose last observation is shown, or who is idle, takes no agent step.
        acts = ~env.truncated & np.repeat([share.left > 0 for share in shares], players)
        steps_left -= int(np.count_nonzero(acts))
        if steps_left < 0:
            return
        of_slots = [side for share in shares for side in share.sides]
        actions = spec.action.zeros(len(acts))
        for side in {id(side): side for side in of_slots}.values():
            rows = np.flatnonzero(acts & [one is side for one in of_slots])
            if len(rows):
                actions[rows] = side(env, rows)
        for share, *step in zip(shares, *(np.split(x, len(shares)) for x in (actions, acts)), strict=True):
            if share.left:
                yield from share.step(*step)


class _GameShare(Share):
    """The games of P players that are assigned to P slots, one after another."""

    def begin(self) -> None:
        """Starts the next game."""
        number, seed = next(self.next)
        order = self._of_first_game
        self.sides = [order[(player - number) % len(order)] for player in range(len(order))]
        players = tuple(player for player, side in enumerate(self.sides) if side is order[0])
        self._game = PlayedEpisode(number, seed, [], 0.0, players=players)
        self.batch.reset([seed] * len(order))

    def step(self, actions: np.ndarray, acts: np.ndarray) -> Iterator[PlayedEpisode]:
        """Takes an agent step; yields the game if it ends, and starts the next one."""
        self._game.actions.extend((player, actions[player]) for player in np.flatnonzero(acts))
        _, infos = self.batch.step(actions)
        if Info.PLAYER_EPISODE in infos[0]:
            self.left -= 1
            returns = tuple(float(info[Info.PLAYER_EPISODE][0]) for info in infos)
            players = self._game.players
            mean, figures = float(np.mean([returns[p] for p in players])), of_info(infos[players[0]])
            yield self._game._replace(episode_return=mean, figures=figures, returns=returns)
        elif Info.EPISODE_IS_VOID in infos[0]:
            self.batch.reset()  # Replaces the environment; the first reset of a replacement takes no seed.
        else:
            return
        if self.left:
            self.begin()


def scored(games: Sequence[PlayedEpisode]) -> dict[str, float]:
    """Wins, draws and losses of the first side, whose return must be higher than all others for a win.

    `score` is the share of games won, and half of those drawn, in which it equals the highest; `score_low`
    and `score_high` bound Wilson's 95% interval of it, which is a little wide with draws.
    """
    highest = [max(x for p, x in enumerate(game.returns) if p not in game.players) for game in games]
    each = np.sign(np.array([game.episode_return for game in games]) - highest)
    counts = {name: int(np.sum(each == x)) for name, x in (("wins", 1), ("draws", 0), ("losses", -1))}
    share = (1 + float(np.mean(each))) / 2
    low, high = wilson_interval(share, len(each))
    return {**counts, "score": share, "score_low": low, "score_high": high}


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95% interval (1927) of a probability, from a share of `count` independent trials."""
    z = _NORMAL_QUANTILE**2 / count
    centre, half = share + z / 2, float(np.sqrt(z * (share * (1 - share) + z / 4)))
    return (centre - half) / (1 + z), (centre + half) / (1 + z)
