"""Settings of an actor process."""

import dataclasses

from seed_rl.environments.failures import FailureConfig
from seed_rl.options import Options, option, part
from seed_rl.seeds import LARGEST_SEED


@dataclasses.dataclass(frozen=True)
class ActorConfig(Options):
    """Settings of an actor, apart from those of its environments."""

    server_address: str = option(
        "unix:/tmp/seed_rl.sock", "Where the learner listens: unix:PATH or HOST:PORT."
    )
    task: str = option(
        "0",
        "Number of this actor, from 0; its environments start at id task x env_batch_size. auto: the learner "
        "assigns a free number, so actors may come and go. An actor whose number is taken gives up after "
        "45 s, which is long enough for a learner to notice that the other actor is gone.",
    )
    env_batch_size: int = option(1, "Environments in this actor, stepped one after the other.", at_least=1)
    num_env_groups: int = option(
        1,
        "Number of groups that the actor's environments are split into; with 2, one group steps while the "
        "other waits for its actions.",
        at_least=1,
    )
    seed: int = option(
        1,
        "Seed of the environments; each derives its own from this and its id.",
        at_least=0,
        at_most=LARGEST_SEED,
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
    failures: FailureConfig = part(FailureConfig)

    @property
    def fixed_task(self) -> int | None:
        """The task's number; None if the learner assigns it."""
        return None if self.task == "auto" else int(self.task)

    def validate(self) -> None:
        """Checks that the task is a number or auto, and that the groups have equal sizes."""
        if self.task != "auto" and not (self.task.isascii() and self.task.isdigit()):
            raise ValueError(f"--task={self.task} is not valid; use a number of at least 0, or auto.")
        if self.env_batch_size % self.num_env_groups:
            raise ValueError(
                f"--env_batch_size={self.env_batch_size} cannot be split into --num_env_groups="
                f"{self.num_env_groups} equal groups; make one a multiple of the other."
            )
