"""Actors in threads, as they would be in processes."""

from seed_rl.actor.actor_config import ActorConfig
from seed_rl.actor.loop import Actor
from tests.threads import Thread


class Player(Thread):
    """An actor, each environment in a group of its own; keeps the error that ended it."""

    def __init__(self, address: str, envs: int = 2, connect_timeout_secs: float = 60.0):
        """Starts it."""
        self._config = ActorConfig(
            address, env_batch_size=envs, num_env_groups=envs, connect_timeout_secs=connect_timeout_secs
        )
        super().__init__(self._play)

    def _play(self) -> None:
        actor = Actor(self._config)
        try:
            actor.run()
        finally:
            actor.close()
