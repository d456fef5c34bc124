"""Policy lag of training batches. No TensorFlow."""

import numpy as np


class PolicyLag:
    """Figures of the policy versions in a period's batches, in updates (SEED RL, section 3 and Figure 2).

    The weights may change several times within an unroll, so its last step is usually acted on by newer ones
    than its first. Of an unroll, only the T steps count whose actions are trained on: not the burn-in, nor
    the last step, whose action belongs to the next unroll.
    """

    def __init__(self, burn_in: int):
        """Starts without batches; unrolls begin with so many agent steps of burn-in."""
        self._burn_in = burn_in
        self._batches: list[tuple[float, float, float, float]] = []

    def add(self, versions: np.ndarray, updates: int) -> None:
        """Adds a batch that is about to be trained on, after so many updates; its versions int64 `[S, B]`."""
        acted = versions[self._burn_in : -1]
        spread = np.ptp(acted, axis=0)
        lags = updates - acted[[0, -1]].mean(axis=1)
        self._batches.append((*lags, spread.mean(), spread.max()))

    def take(self) -> dict[str, float]:
        """The figures since the last call, by plain name; none if there was no batch."""
        if not self._batches:
            return {}
        first, last, mean, most = np.array(self._batches).T
        self._batches = []
        return {
            "policy_lag_first_updates": float(first.mean()),
            "policy_lag_last_updates": float(last.mean()),
            "version_spread_mean_updates": float(mean.mean()),
            "version_spread_max_updates": float(most.max()),
        }
