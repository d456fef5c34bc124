"""Settings of an actor process."""

import dataclasses

from seed_rl.environments.failures import FailureConfig
from seed_rl.options import Options, option, part


@dataclasses.dataclass(frozen=True)
class ActorConfig(Options):
    """Settings of an actor. Those of its environments come from the learner."""

    server_address: str = option(
        "unix:/tmp/seed_rl.sock", "Where the learner listens: unix:PATH or HOST:PORT."
    )
    task: int | None = option(
        None,
        "Number of the task that this actor wants, from 0; it plays the environments from task x "
        "env_batch_size on. It gets another one if that is taken. None: any.",
        at_least=0,
    )
    env_batch_size: int = option(1, "Environments in this actor, stepped one after the other.", at_least=1)
    num_env_groups: int = option(
        1,
        "Number of groups that the actor's environments are split into; with 2, one group steps while the "
        "other waits for its actions.",
        at_least=1,
    )
    connect_timeout_secs: float = option(
        300.0,
        "Seconds after which an actor that cannot reach a learner, or gets no task, gives up with an error.",
        above=0,
    )
    transport: str = option(
        "auto",
        "How steps and actions travel. shared_memory: through memory that the actor shares with a learner on "
        "its machine (Linux, same user). grpc: as messages. auto: shared memory if possible.",
        choices=("auto", "grpc", "shared_memory"),
    )
    pin: bool = option(
        False,
        "Whether an actor and its environments stay on one CPU core: of the cores that it may use, the one "
        "whose turn it is by the number of the actor's task (Linux).",
        is_plumbing=True,
    )
    failures: FailureConfig = part(FailureConfig)

    def validate(self) -> None:
        """Checks that the groups have equal sizes."""
        if self.env_batch_size % self.num_env_groups:
            raise ValueError(
                f"--env_batch_size={self.env_batch_size} cannot be split into --num_env_groups="
                f"{self.num_env_groups} equal groups; make one a multiple of the other."
            )
