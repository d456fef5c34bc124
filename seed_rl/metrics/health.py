"""Signs that a run is learning badly or not at all, each reported once with what helps. No TensorFlow."""

import math
from collections.abc import Collection, Mapping
from typing import Any

from seed_rl.types import ArraySpec

# A solved task may lower the entropy as well, so the message says "unless".
_COLLAPSED_ENTROPY_SHARE = 0.05
# An entropy has exploded if it is above this share of a uniform policy's and has been lower by that one; for
# continuous actions, if it has been lower by so many nats each: with a tenth of the standard deviation.
_RANDOM_ENTROPY_SHARE, _RISEN_ENTROPY_SHARE, _RISEN_NATS = 0.95, 0.45, math.log(10.0)
# Runs that learn well are at 0.001 to 0.01.
_HIGH_KL = 0.1
# Updates between acting and learning; runs that learn well on small machines are at 5 to 10.
_HIGH_POLICY_LAG = 40.0
# A run that has lost this share of the return gained since its start is in trouble. A gain smaller than the
# other share, of the returns themselves, is noise.
_LOST_SHARE, _LEAST_GAIN = 0.5, 0.1
# Least duration of a sign: this share of the run's environment frames, and this many reports.
_LONG_SHARE, _LONG_REPORTS = 0.02, 6
# Far longer than environments take to start or to reset.
_STALLED_SECS = 60.0


class Health:
    """Checks the metrics of each period for signs that a run is learning badly."""

    def __init__(self, action: ArraySpec, total_environment_frames: int, agent_flags: Collection[str]):
        """Judges a run of this many environment frames; warnings advise only what `agent_flags` has."""
        # In nats; continuous actions have no scale.
        self._uniform_entropy = math.log(math.prod(action.num_values)) if action.is_discrete else -math.inf
        share, nats = _RISEN_ENTROPY_SHARE * self._uniform_entropy, _RISEN_NATS * math.prod(action.shape)
        self._risen_nats = share if action.is_discrete else nats
        self._lowest_entropy = math.inf
        self._agent_flags = agent_flags
        self._evaluated: float | None = None
        self._first: float | None = None
        self._best = -math.inf
        self._long_frames = _LONG_SHARE * total_environment_frames
        self._lasting: dict[str, tuple[int, int]] = {}  # Environment frames since when, and reports so far.
        self._warned: set[str] = set()
        self._stepped = -1, 0.0  # Environment frames, and the seconds when they were reached.

    def check(self, metrics: Mapping[str, Any]) -> list[str]:
        """Warnings about what has been wrong for a long time, each kind once; each stall once.

        `metrics` are those of a period, by plain name; missing ones are not judged.
        """
        frames, signs = metrics["env_frames"], self._signs(metrics)
        lasting = {name: self._lasting.get(name, (frames, 0)) for name in signs}
        self._lasting = {name: (since, reports + 1) for name, (since, reports) in lasting.items()}
        found = [sign for sign in signs if sign not in self._warned and self._is_long(sign, frames)]
        self._warned |= set(found)
        sentences = [*(signs[sign] for sign in found), *self._stall(frames, metrics.get("seconds", 0.0))]
        return [f"Warning: {sentence}" for sentence in sentences]

    def _is_long(self, sign: str, frames: int) -> bool:
        since, reports = self._lasting[sign]
        return reports >= _LONG_REPORTS and frames - since >= self._long_frames

    def _signs(self, metrics: Mapping[str, Any]) -> dict[str, str]:
        """A sentence on each problem in the metrics of a period, by its kind."""
        signs: dict[str, str] = {}
        entropy = metrics.get("entropy", math.nan)
        self._lowest_entropy = lowest = min(self._lowest_entropy, entropy)
        more = self._flag("entropy_cost", "target_entropy_fraction")
        if entropy < _COLLAPSED_ENTROPY_SHARE * self._uniform_entropy:
            signs["collapsed entropy"] = (
                f"the policy's entropy has collapsed ({entropy:.3f} nats; a uniform policy has "
                f"{self._uniform_entropy:.2f}), so it hardly explores; unless the task is solved, "
                + (f"raise {more}." if more else "let it explore more.")
            )
        if entropy > max(lowest + self._risen_nats, _RANDOM_ENTROPY_SHARE * self._uniform_entropy):
            signs["exploded entropy"] = (
                f"the policy's entropy has exploded ({entropy:.2f} nats, after {lowest:.2f}), so it acts at "
                f"random; unless returns rise with it, lower {more or '--learning_rate'}."
            )
        if (kl := metrics.get("kl_old_new", 0.0)) > _HIGH_KL:
            fewer = self._flag("passes", "epochs")
            signs["high divergence"] = (
                f"the policy moves too far between acting and learning (KL(old|new) is {kl:.2f}); lower "
                "--learning_rate" + (f", or train fewer times on each unroll ({fewer})." if fewer else ".")
            )
        # Replay is off-policy by design: only agents that report the KL divergence are judged.
        if (
            "kl_old_new" in metrics
            and (lag := metrics.get("policy_lag_first_updates", 0.0)) > _HIGH_POLICY_LAG
        ):
            signs["high lag"] = (
                f"experience is {lag:.0f} updates old when it is trained on; raise --batch_size, or use "
                "fewer environments per learner (--env_batch_size); --max_policy_lag drops what is older."
            )
        if (value := self._fallen(metrics)) is not None:
            flag = self._flag("actor_learning_rate") or "--learning_rate"
            signs["fallen return"] = (
                f"the mean return ({value:.2f}) has been far below its best ({self._best:.2f}) for a long "
                f"time; lower {flag}. The best policy so far is kept: evaluate it with --checkpoint=best."
            )
        return signs

    def _fallen(self, metrics: Mapping[str, Any]) -> float | None:
        """The return, if it has lost much of what it had gained."""
        # Not every period has a return in evaluation: the last one counts until there is another.
        self._evaluated = metrics.get("mean_evaluation_return", self._evaluated)
        value = metrics.get("mean_return") if self._evaluated is None else self._evaluated
        if value is None:
            return None
        self._first = value if self._first is None else self._first
        self._best = max(self._best, value)
        gain = self._best - self._first
        has_gained = gain > _LEAST_GAIN * max(abs(self._best), abs(self._first))
        return value if has_gained and value < self._best - _LOST_SHARE * gain else None

    def _flag(self, *names: str) -> str:
        """The first of these flags that the agent has; empty if it has none of them."""
        return next((f"--{name}" for name in names if name in self._agent_flags), "")

    def _stall(self, frames: int, seconds: float) -> list[str]:
        """No environment steps any more, which no other metric shows: there are no new ones."""
        if frames != self._stepped[0]:
            self._stepped = frames, seconds
        still = seconds - self._stepped[1]
        if still < _STALLED_SECS:
            return []
        self._stepped = frames, math.inf  # Reported.
        return [
            f"no environment has taken a step for {still:.0f} s; check that all actors run. Agents that "
            "train on rollouts wait until every environment has an actor."
        ]
