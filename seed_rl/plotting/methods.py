"""What the field calls the method that a run trained with: V-trace, PPO, Rainbow."""

from collections.abc import Mapping
from typing import Any

from seed_rl.runs.record import RunRecord

_NAMES = {
    "a2c": "A2C",
    "appo": "APPO",
    "dqn": "DQN",
    "pqn": "PQN",
    "ppo": "PPO",
    "r2d2": "R2D2",
    "sac": "SAC",
    "vtrace": "V-trace",
}


def method_name(run: RunRecord) -> str:
    """The method's name in print.

    Some sets of DQN's settings have names of their own, whichever preset or flags they came from: Rainbow
    (Hessel et al., 2018) has double, dueling, categorical and noisy networks, prioritized replay and n-step
    targets. ε-Rainbow (Stooke & Abbeel, 2018) explores with an epsilon in place of the noise. Noisy
    dueling networks, quantiles and Munchausen's target are only a part of Beyond The Rainbow (BTR; Clark et
    al., 2024). An agent of another package keeps the name that it is registered with.
    """
    if run.agent == "dqn":
        return _dqn_name(run.agent_settings)
    return _NAMES.get(run.agent, run.agent)


def _dqn_name(settings: Mapping[str, Any]) -> str:
    is_noisy = settings["exploration"] == "noisy"
    has_common = settings["dueling"] and settings["n_steps"] > 1 and settings["priority_exponent"] > 0
    if has_common and settings["double"] and settings["distribution"] == "categorical":
        return "Rainbow" if is_noisy else "ε-Rainbow"
    if has_common and is_noisy and settings["munchausen"] and settings["distribution"] == "quantile":
        return "BTR in part"
    return _NAMES["dqn"]
