"""Opponents of self-play: a pool of earlier copies of the policy (a league), or of another run's policy."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.algorithms.base import Algorithm
from seed_rl.algorithms.policy import Policy
from seed_rl.devices.publisher import PolicyCopy, Publisher
from seed_rl.experience.base import ReplaySettings
from seed_rl.inference.players import LEARNING
from seed_rl.learner.learner_config import SELF, LearnerConfig
from seed_rl.training.checkpoint import Json
from seed_rl.types import EnvironmentSpec

# The share of episodes in which all players are the policy that is trained.
NEWEST_SHARE = 0.5

_ELO_STEP = 16.0  # The most that one episode changes a rating by.
_SCORE_STEP = 0.05  # The weight of one episode in a member's score.
_WINDOW = 200  # Episodes in a win rate.


class League:
    """A pool of K copies of the policy, each frozen when it joined; the oldest is replaced. Thread-safe.

    Half of the episodes are played by the newest policy alone. In the others one player learns, and a member
    acts for the rest; it is drawn in proportion to how often it still wins (prioritized fictitious self-play:
    Vinyals et al., 2019, "Grandmaster level in StarCraft II", Methods; draws count half). Ratings are Elo's:
    a difference of 400 means odds of ten to one. A new member has the rating of the newest policy.

    Another run's policy may be the only member: then it plays in all episodes.

    Attributes:
      saved: the part of a checkpoint: weights and scores.
    """

    def __init__(self, source: Policy, copies: Sequence[PolicyCopy], every: int | None, seed: int):
        """Starts empty; a copy of `source` joins every so many updates, in the place of one of `copies`.

        None: the only copy, of another policy, is the member from the start.
        """
        self._copies, self._every, self._random = copies, every, np.random.default_rng(seed)
        self._publishers = [Publisher(source, [copy]) for copy in copies] if every else []
        self._lock, self._windows = threading.Lock(), dict[str, deque[float]]()
        self.saved = tf.Module(name="league")
        self.saved.policies = [copy.policy for copy in copies]
        table: dict[str, Any] = {"size": len(copies), "joined": 0, "elo": 0.0, "members": {}}
        self.saved.table = self._table = Json(table)
        if not every:
            table["members"]["1"] = {"updates": 0, "elo": 0.0, "score": 0.5}

    def updated(self, version: int) -> None:
        """Takes in the weights after update `version`, if that is due; called by the training thread."""
        if not self._every or version % self._every:
            return
        with self._lock:
            table = self._table.value
            number = table["joined"] = table["joined"] + 1
            place = (number - 1) % len(self._copies)
            self._publishers[place].publish(version)
            table["members"].pop(str(number - len(self._copies)), None)
            table["members"][str(number)] = {"updates": version, "elo": table["elo"], "score": 0.5}

    def draw(self) -> int:
        """The number of the member that plays the next episode; see `Opponents.draw`."""
        with self._lock:
            members = self._table.value["members"]
            if not members or (self._every and self._random.random() < NEWEST_SHARE):
                return LEARNING
            scores = np.array([member["score"] for member in members.values()]) + 1e-3
            return int(self._random.choice(list(map(int, members)), p=scores / scores.sum()))

    def ended(self, number: int, score: float) -> None:
        """Adds the result of an episode, unless its member is gone by now; see `Opponents.ended`."""
        with self._lock:
            table = self._table.value
            member = table["members"].get(str(number))
            if member is None and number != LEARNING:
                return
            self._windows.setdefault("pool" if member else "newest", deque(maxlen=_WINDOW)).append(score)
            if member:
                change = _ELO_STEP * (score - 1 / (1 + 10 ** ((member["elo"] - table["elo"]) / 400)))
                table["elo"], member["elo"] = table["elo"] + change, member["elo"] - change
                member["score"] += _SCORE_STEP * (1 - score - member["score"])

    def policy(self, number: int) -> tuple[int, Policy, Callable[[], AbstractContextManager[int]]]:
        """The policy of a member, or of the one that has replaced it; see `Opponents.policy`."""
        place = (number - 1) % len(self._copies)
        return place, self._copies[place].policy, self._copies[place].acting

    def before_save(self) -> None:
        """Brings what is saved up to date."""
        for copy in self._copies:
            with copy.acting():
                pass

    def restored(self) -> None:
        """Checks what a checkpoint has brought.

        Raises:
          ValueError: its pool had another size.
        """
        size = self._table.value["size"]
        if size != len(self._copies):
            raise ValueError(
                f"--league_size={len(self._copies)} cannot resume a run whose pool has {size} members; use "
                f"--league_size={size}."
            )

    def take(self) -> dict[str, float]:
        """Metrics by plain name."""
        with self._lock:
            table = self._table.value
            ratings = [member["elo"] for member in table["members"].values()]
            best = {"elo_above_best_of_pool": table["elo"] - max(ratings)} if ratings else {}
            rates = {f"win_rate_against_{name}": float(np.mean(w)) for name, w in self._windows.items()}
            return rates | best | {"elo": table["elo"], "pool_size": float(len(ratings))}


def check_players(config: LearnerConfig, spec: EnvironmentSpec, algorithm: Algorithm, devices: int) -> None:
    """Refuses settings with which players cannot train; so many devices infer.

    Raises:
      ValueError: which, and what to use instead.
    """
    players, opponents = spec.num_players, config.opponents
    if players == 1:
        if opponents != SELF:
            raise ValueError(f"--opponents={opponents} needs a game of several players; leave it out.")
        return
    is_replay = isinstance(algorithm.experience, ReplaySettings)
    for is_wrong, remedy in (
        (config.inference == "actor", "leave out --inference=actor"),
        (config.learner_hosts, "train with one learner, without --learner_hosts and --num_learners"),
        (is_replay, "choose an agent without replay, such as ppo or vtrace"),
        (config.num_envs % players, f"make --num_envs={config.num_envs} a multiple of these"),
        (opponents != SELF and devices > 1, f"name one of the {devices} devices by --inference_devices"),
    ):
        if is_wrong:
            raise ValueError(f"The environment is a game of {players} players; {remedy}.")
