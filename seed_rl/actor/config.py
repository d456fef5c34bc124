"""Settings of an actor process."""

import dataclasses

from seed_rl.options import Options, option


@dataclasses.dataclass(frozen=True)
class ActorConfig(Options):
    """Everything of an actor that is not the environment's."""

    server_address: str = option(
        "unix:/tmp/seed_rl.sock", "Where the learner listens: unix:PATH or HOST:PORT."
    )
    task: str = option(
        "0",
        "Number of this actor, from 0; its environments are task x env_batch_size on. auto: the learner "
        "gives it one that is free, so that actors may come and go. An actor whose number another one has "
        "gives up after 45 s, which is long enough for a learner to see that the other is gone.",
    )
    env_batch_size: int = option(1, "Environments in this actor, stepped one after the other.", at_least=1)
    num_env_groups: int = option(
        1,
        "Groups that the actor's environments are split into; with 2, one group steps while the other waits "
        "for its actions.",
        at_least=1,
    )
    seed: int = option(1, "Seed of the environments; each of them gets one of its own, from this and its id.")
    max_environment_failures: int = option(
        3,
        "How often an environment may fail (raise, or return NaN or what its spaces do not allow) and be "
        "replaced before an episode of it has ended; one more ends the actor.",
        at_least=0,
    )
    connect_timeout_secs: float = option(
        300.0,
        "An actor that cannot reach a learner, or is given no task, for this many seconds gives up with an "
        "error.",
        above=0,
    )

    @property
    def fixed_task(self) -> int | None:
        """The task's number; None where the learner chooses it."""
        return None if self.task == "auto" else int(self.task)

    def validate(self) -> None:
        """Tasks are numbers, and groups must be equal in size."""
        if self.task != "auto" and not (self.task.isascii() and self.task.isdigit()):
            raise ValueError(f"--task={self.task} is not valid; give a number from 0 on, or auto.")
        if self.env_batch_size % self.num_env_groups:
            raise ValueError(
                f"--env_batch_size={self.env_batch_size} cannot be split into --num_env_groups="
                f"{self.num_env_groups} equal groups; make one a multiple of the other."
            )
