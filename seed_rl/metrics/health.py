"""Signs that a run is learning badly or not at all, each reported once with what helps. No TensorFlow."""

import math
from collections.abc import Callable, Collection, Mapping
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
# A run that has lost this share of the return gained since its start is in trouble.
_LOST_SHARE = 0.5
# A gain smaller than this share of the returns themselves is noise.
_LEAST_GAIN = 0.1
# Least duration of a sign: this share of the run's environment frames, and this many reports.
_LONG_SHARE = 0.02
_LONG_REPORTS = 6
# Far longer than environments take to start or to reset.
_STALLED_SECS = 60.0

# A sentence on the problem in the metrics of a period; None if there is none.
Sign = Callable[[Mapping[str, Any]], str | None]


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
        self._lasting: dict[Sign, tuple[int, int]] = {}  # Environment frames since when, and reports so far.
        self._warned: set[Sign] = set()
        self._stepped = -1, 0.0  # Environment frames, and the seconds when they were reached.
        self._has_stalled = False

    def check(self, metrics: Mapping[str, Any]) -> list[str]:
        """Warnings about what has been wrong for a long time, each kind once; each stall once.

        `metrics` are those of a period, by plain name; missing ones are not judged.
        """
        signs = (self._entropy, self._entropy_rise, self._kl, _policy_lag, self._return)
        sentences = [*(self._once(sign, metrics) for sign in signs), self._stall(metrics)]
        return [f"Warning: {sentence}" for sentence in sentences if sentence]

    def _once(self, sign: Sign, metrics: Mapping[str, Any]) -> str | None:
        """The sentence of a sign, once, when there has been one in every period for long enough."""
        sentence, frames = sign(metrics), metrics["env_frames"]
        if sentence is None:
            self._lasting.pop(sign, None)
            return None
        since, reports = self._lasting.get(sign, (frames, 0))
        self._lasting[sign] = since, reports + 1
        is_long = reports + 1 >= _LONG_REPORTS and frames - since >= self._long_frames
        if sign in self._warned or not is_long:
            return None
        self._warned.add(sign)
        return sentence

    def _entropy(self, metrics: Mapping[str, Any]) -> str | None:
        entropy = metrics.get("entropy", math.inf)
        if entropy >= _COLLAPSED_ENTROPY_SHARE * self._uniform_entropy:
            return None
        flag = self._flag("entropy_cost", "target_entropy_fraction")
        return (
            f"the policy's entropy has collapsed ({entropy:.3f} nats; a uniform policy has "
            f"{self._uniform_entropy:.2f}), so it hardly explores; unless the task is solved, "
            + (f"raise {flag}." if flag else "let it explore more.")
        )

    def _entropy_rise(self, metrics: Mapping[str, Any]) -> str | None:
        entropy = metrics.get("entropy", math.nan)
        self._lowest_entropy = lowest = min(self._lowest_entropy, entropy)
        if not entropy > max(lowest + self._risen_nats, _RANDOM_ENTROPY_SHARE * self._uniform_entropy):
            return None
        flag = self._flag("entropy_cost", "target_entropy_fraction") or "--learning_rate"
        return (
            f"the policy's entropy has exploded ({entropy:.2f} nats, after {lowest:.2f}), so it acts at "
            f"random; unless returns rise with it, lower {flag}."
        )

    def _kl(self, metrics: Mapping[str, Any]) -> str | None:
        kl = metrics.get("kl_old_new", 0.0)
        if kl <= _HIGH_KL:
            return None
        fewer = self._flag("passes", "epochs")
        return (
            f"the policy moves too far between acting and learning (KL(old|new) is {kl:.2f}); lower "
            "--learning_rate" + (f", or train fewer times on each unroll ({fewer})." if fewer else ".")
        )

    def _return(self, metrics: Mapping[str, Any]) -> str | None:
        # Not every period has a return in evaluation: the last one counts until there is another.
        self._evaluated = metrics.get("mean_evaluation_return", self._evaluated)
        value = metrics.get("mean_return") if self._evaluated is None else self._evaluated
        if value is None:
            return None
        if self._first is None:
            self._first = value
        self._best = max(self._best, value)
        gain = self._best - self._first
        if gain <= _LEAST_GAIN * max(abs(self._best), abs(self._first)):
            return None
        if value >= self._best - _LOST_SHARE * gain:
            return None
        flag = self._flag("actor_learning_rate") or "--learning_rate"
        return (
            f"the mean return ({value:.2f}) has been far below its best ({self._best:.2f}) for a long time; "
            f"lower {flag}. The best policy so far is kept: evaluate it with --checkpoint=best."
        )

    def _flag(self, *names: str) -> str:
        """The first of these flags that the agent has; empty if it has none of them."""
        return next((f"--{name}" for name in names if name in self._agent_flags), "")

    def _stall(self, metrics: Mapping[str, Any]) -> str | None:
        """No environment steps any more, which no other metric shows: there are no new ones."""
        frames, seconds = metrics["env_frames"], metrics.get("seconds", 0.0)
        if frames != self._stepped[0]:
            self._stepped, self._has_stalled = (frames, seconds), False
        still = seconds - self._stepped[1]
        if self._has_stalled or still < _STALLED_SECS:
            return None
        self._has_stalled = True
        return (
            f"no environment has taken a step for {still:.0f} s; check that all actors run. Agents that "
            "train on rollouts wait until every environment has an actor."
        )


def _policy_lag(metrics: Mapping[str, Any]) -> str | None:
    """Replay is off-policy by design: only agents that report the KL divergence are judged."""
    lag = metrics.get("policy_lag_first_updates", 0.0)
    if "kl_old_new" not in metrics or lag <= _HIGH_POLICY_LAG:
        return None
    return (
        f"experience is {lag:.0f} updates old when it is trained on; raise --batch_size, or use fewer "
        "environments per learner (--env_batch_size); --max_policy_lag drops what is older."
    )
