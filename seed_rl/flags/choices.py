"""Suggestions for an environment or an agent that does not exist."""

from collections.abc import Callable

from seed_rl.algorithms import registry as algorithms
from seed_rl.environments import registry as environments
from seed_rl.environments.base import nearest
from seed_rl.environments.suites.atari import find_game
from seed_rl.environments.suites.classic import find_id
from seed_rl.environments.suites.envpool import find_own_id
from seed_rl.flags.errors import UsageError

# The environments whose games have names of other libraries.
_GAMES: dict[str, Callable[[str], str | None]] = {
    "atari": find_game,
    "envpool": find_own_id,
    "gym": find_id,
}

# Families of environments, and an example of each in the environment that has it.
FAMILIES = {
    "ale": ("atari", "Pong"),
    "babyai": ("gym", "minigrid:BabyAI-GoToObj-v0"),
    "box2d": ("gym", "LunarLander-v3"),
    "classic_control": ("gym", "CartPole-v1"),
    "dm_control": ("envpool", "CartpoleSwingup-v1"),
    "dmc": ("envpool", "CartpoleSwingup-v1"),
    "gymnasium": ("gym", "CartPole-v1"),
    "minigrid": ("gym", "minigrid:MiniGrid-Empty-5x5-v0"),
    "mujoco": ("gym", "HalfCheetah-v5"),
    "procgen": ("envpool", "CoinrunEasy-v0"),
    "toy_text": ("gym", "FrozenLake-v1"),
    "vizdoom": ("envpool", "Basic-v1"),
}


def check_choices(environment: str | None, agent: str | None) -> None:
    """Checks the names of the environment and the agent, as far as they are given.

    Raises:
      UsageError: there is no such environment or agent; the message has the command that was likely meant.
    """
    agents = algorithms.choices()
    if environment is None or environment in environments.names():
        return
    if environment in agents and agent in environments.names():
        raise UsageError(
            f"--environment={environment} is not valid: the environment comes first, then the agent; write "
            f"{agent} {environment}."
        )
    if environment in agents:
        raise UsageError(
            f"--environment={environment} is not valid: it is an agent, which comes second; write "
            f"ENVIRONMENT {environment}, with one of: {', '.join(environments.names())}."
        )
    if found := FAMILIES.get(environment.lower().replace("-", "_")):
        suite, example = found
        raise UsageError(
            f"--environment={environment} is not valid: it is part of {suite}; write {suite} "
            f"{agent if agent in agents else 'AGENT'} --game={example}, for instance."
        )
    for suite, find in _GAMES.items():
        if game := find(environment):
            raise UsageError(
                f"--environment={environment} is not valid: it is a game of {suite}; write {suite} "
                f"{agent if agent in agents else 'AGENT'} --game={game}."
            )
    close = nearest(environment, environments.names(), count=1)
    guess = f"did you mean {close[0]}? Choose" if close else "choose"
    raise UsageError(
        f"--environment={environment} is not valid; {guess} one of: {', '.join(environments.names())}."
    )
