"""Actors in threads, as they would be in processes."""

from seed_rl.actor.config import ActorConfig
from seed_rl.actor.loop import Actor, Patience
from seed_rl.environments.suites import catch
from tests.threads import Thread


class Player(Thread):
    """An actor that plays Catch, each environment in a group of its own; keeps the error that ended it."""

    def __init__(
        self,
        address: str,
        environment: catch.CatchConfig,
        task: str = "0",
        envs: int = 2,
        connect_timeout_secs: float = 60.0,
        patience: Patience = Patience(),  # noqa: B008 (immutable)
        transport: str = "auto",
    ):
        """Starts it."""
        self._config = ActorConfig(
            address, task, envs, envs, connect_timeout_secs=connect_timeout_secs, transport=transport
        )
        self._environment, self._patience = environment, patience
        super().__init__(self._play)

    def _play(self) -> None:
        actor = Actor(self._config, "catch", catch.SUITE, self._environment, patience=self._patience)
        try:
            actor.run()
        finally:
            actor.close()
