"""Checks the finished episodes that actors report, before they count. No TensorFlow."""

import math
from collections.abc import Sequence

from seed_rl.serving.slots import Lease
from seed_rl.wire.generated import inference_pb2 as pb

# At a thousand agent steps per second, an environment takes eleven days for this many.
_MOST_EPISODE_STEPS = 10**9


def episode_problem(episodes: Sequence[pb.Episode], lease: Lease) -> str | None:
    """Why episodes reported with a step cannot count, in one sentence; None if they can."""
    first, end = lease.first_env, lease.first_env + lease.num_envs
    for episode in episodes:
        env = episode.env
        if not first <= env < end:
            return (
                f"An episode of environment {env} was reported on a stream of environments {first} to "
                f"{end - 1}; report each episode on its environment's own stream, by the run-wide id."
            )
        if not math.isfinite(episode.episode_return):
            return f"The return of an episode of environment {env} is NaN or infinite; fix the environment."
        if not 0 <= episode.agent_steps <= _MOST_EPISODE_STEPS:
            return (
                f"An episode of environment {env} cannot have {episode.agent_steps} agent steps; report 0 to "
                f"{_MOST_EPISODE_STEPS}."
            )
    if len({episode.env for episode in episodes}) < len(episodes):
        return "A step has more than one episode of an environment; report each with the step that ended it."
    return None
