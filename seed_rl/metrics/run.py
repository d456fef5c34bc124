"""Metrics that the parts of a run count: its episodes, speed and failures. No TensorFlow."""

import collections
import contextlib
import math
import statistics
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import psutil

from seed_rl.metrics.episodes import FAILURES, OWN, OWN_IN_EVALUATION, OwnMetrics, means

# The return of an episode, its agent steps (not in evaluation), and the metrics of the environment's own.
_Training: TypeAlias = tuple[float, int, dict[str, float]]
_Evaluation: TypeAlias = tuple[float, dict[str, float]]

# Number of training episodes in the mean return.
_WINDOW = 100

# Metrics that are not averaged over hosts: those added up, and those of which the largest counts.
_SUMS = frozenset(("learner_memory_mib", "queue_depth", "dropped_unrolls", "replay_size", "replay_mib"))
_MAXIMA = frozenset(("version_spread_max_updates",))


class RunMetrics:
    """Counts what is reported (by any thread), such as episodes, and computes a period's metrics."""

    def __init__(
        self,
        num_action_repeats: int,
        env_frames: int,
        seconds: float,
        episodes: int,
        num_training_envs: int,
        evaluation_window: int,
        recent: Mapping[str, Any] | None = None,
        has_separate_points: bool = False,
    ):
        """Starts counting.

        Args:
          num_action_repeats: environment frames in an agent step.
          env_frames: environment frames of the run so far, more than 0 if it is resumed.
          seconds: seconds of the run so far.
          episodes: episodes of the run so far.
          num_training_envs: environments from this id on evaluate.
          evaluation_window: number of episodes in the mean return of evaluation.
          recent: value of the property `recent` when the run was last saved; episodes with a return that is
            not finite, which earlier versions saved, are dropped.
          has_separate_points: whether each mean return of evaluation is of `evaluation_window` episodes that
            no other one is of, and is in the metrics of one period only.
        """
        self._repeats = num_action_repeats
        self._frames_before = env_frames
        self._started = time.monotonic() - seconds
        self._last = (time.monotonic(), env_frames)
        self._lock = threading.Lock()
        self._num_training_envs = num_training_envs
        self._own = OwnMetrics()
        self._recent: collections.deque[_Training] = collections.deque(maxlen=_WINDOW)
        self._evaluations: collections.deque[_Evaluation] = collections.deque(maxlen=evaluation_window)
        self._has_separate_points = has_separate_points
        self._point: list[_Evaluation] = []  # The episodes of the last separate point.
        self._is_point_new = False
        self._restore(recent or {})
        self._process, self._memory_mib = psutil.Process(), 0.0
        self._news: list[Any] | None = None
        # Since this process started: on this host, and by host on the others.
        self._counts = {"actor_restarts": 0, "refused_connections": 0, "environment_failures": 0}
        self._counts_of_others: dict[int, dict[str, int]] = {}
        self.episodes = episodes

    def _restore(self, recent: Mapping[str, Any]) -> None:
        """Earlier versions saved no metrics: `[return, agent steps]`, and in evaluation the return alone."""
        for episode_return, agent_steps, *metrics in recent.get("training", ()):
            if math.isfinite(episode_return):
                self._recent.append((episode_return, agent_steps, self._own.keep(*metrics or [{}])))
        for episode in recent.get("evaluation", ()):
            episode_return, *metrics = episode if isinstance(episode, list) else [episode]
            if math.isfinite(episode_return):
                self._evaluations.append((episode_return, self._own.keep(*metrics or [{}])))

    @property
    def recent(self) -> dict[str, Any]:
        """The episodes in the means, in a form that JSON supports."""
        with self._lock:
            return {"training": list(self._recent), "evaluation": list(self._evaluations)}

    def settled_return(self, num_eval_envs: int) -> float | None:
        """The mean return of evaluation, or of training without it; None until the window is full."""
        with self._lock:
            returns = [episode[0] for episode in (self._evaluated() if num_eval_envs else self._recent)]
        window = self._evaluations.maxlen if num_eval_envs else _WINDOW
        return float(np.mean(returns)) if len(returns) == window else None

    @property
    def seconds(self) -> float:
        """Seconds of the run so far, not counting time between sessions."""
        return time.monotonic() - self._started

    def env_frames(self, agent_steps: int) -> int:
        """Environment frames of the run, given the agent steps since this process started."""
        return self._frames_before + agent_steps * self._repeats

    def on_actor(self, is_restart: bool) -> None:
        """Records that an actor is ready, whose environments another one may have had."""
        self._counts["actor_restarts"] += is_restart

    def on_refusal(self) -> None:
        """Records that a connection is refused."""
        self._counts["refused_connections"] += 1

    def keep_news(self) -> None:
        """From now on, keeps what `take_news` returns; for a learner host other than the first."""
        self._news = []

    def take_news(self) -> dict[str, Any]:
        """Episodes since the last call, and all counts; JSON values for `add_news` of the first host."""
        with self._lock:
            news, self._news = self._news or [], []
        return {"episodes": news, **self._counts}

    def add_news(self, host: int, news: Mapping[str, Any]) -> None:
        """Adds what another host has taken."""
        self._counts_of_others[host] = {name: int(news[name]) for name in self._counts}
        for episode_return, agent_steps, env, metrics in news["episodes"]:
            self._add(float(episode_return), int(agent_steps), int(env), metrics)

    def on_episodes(self, episodes: Iterable[Any]) -> None:
        """Records finished episodes that actors reported (messages), except those whose return is not finite.

        Those would make every mean over their window NaN or infinite.
        """
        for episode in episodes:
            if math.isfinite(episode.episode_return):
                self._add(episode.episode_return, episode.agent_steps, episode.env, episode.figures)

    def _add(self, episode_return: float, agent_steps: int, env: int, metrics: Mapping[str, float]) -> None:
        failures = metrics.get(FAILURES, 0)
        failures = int(failures) if 0 < failures < 2**31 else 0
        with self._lock:
            self._counts["environment_failures"] += failures
            own = self._own.keep({name: value for name, value in metrics.items() if name != FAILURES})
            if self._news is not None:
                self._news.append((episode_return, agent_steps, env, own))
            if env >= self._num_training_envs:
                self._evaluations.append((episode_return, own))
                if self._has_separate_points and len(self._evaluations) == self._evaluations.maxlen:
                    self._point, self._is_point_new = list(self._evaluations), True
                    self._evaluations.clear()
            else:
                self._recent.append((episode_return, agent_steps, own))
                self.episodes += 1

    def take(self, agent_steps: int, updates: int) -> dict[str, Any]:
        """The metrics of the period that ends now.

        `agent_steps` are those since this process started, `updates` those of the run.
        """
        now, frames = time.monotonic(), self.env_frames(agent_steps)
        last_time, last_frames = self._last
        self._last = (now, frames)
        counts = [self._counts, *self._counts_of_others.values()]
        metrics: dict[str, Any] = {
            "env_frames": frames,
            "agent_steps": frames // self._repeats,
            "updates": updates,
            "seconds": self.seconds,
            "frames_per_second": (frames - last_frames) / max(now - last_time, 1e-9),
            "episodes": self.episodes,
            **{name: sum(host[name] for host in counts) for name in self._counts},
            "learner_memory_mib": self._memory(),
        }
        return metrics | self._means(ends_period=True)

    def _memory(self) -> float:
        """Resident memory of this process in MiB; the last figure while it may open no more files."""
        with contextlib.suppress(OSError):
            self._memory_mib = self._process.memory_info().rss / 2**20
        return self._memory_mib

    def glance(self, agent_steps: int) -> dict[str, Any]:
        """Environment frames and the mean returns as they are now; ends no period. For any thread."""
        return {"env_frames": self.env_frames(agent_steps), **self._means(ends_period=False)}

    def _evaluated(self) -> list[_Evaluation]:
        """The episodes in the mean return of evaluation; to be called with the lock held."""
        return self._point if self._has_separate_points else list(self._evaluations)

    def _means(self, ends_period: bool) -> dict[str, float]:
        with self._lock:
            recent, evaluations = list(self._recent), self._evaluated()
            if ends_period and self._has_separate_points:
                evaluations = evaluations if self._is_point_new else []
                self._is_point_new = False
        metrics: dict[str, float] = {}
        if recent:
            returns, lengths, own = zip(*recent, strict=True)
            metrics["mean_return"] = float(np.mean(returns))
            metrics["mean_episode_agent_steps"] = float(np.mean(lengths))
            metrics |= means(own, OWN)
        if evaluations:
            returns, own = zip(*evaluations, strict=True)
            metrics["mean_evaluation_return"] = float(np.mean(returns))
            metrics |= means(own, OWN_IN_EVALUATION)
        return metrics


def over_hosts(hosts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The metrics of the first host, each over all hosts that have it.

    Counts are added up, of maxima the largest is taken, and all other metrics are averaged.
    """
    found = {}
    for name in hosts[0]:
        values = [host[name] for host in hosts if name in host]
        combine = sum if name in _SUMS else max if name in _MAXIMA else statistics.fmean
        found[name] = combine(values)
    return found
