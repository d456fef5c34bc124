"""Settings of a server of trained policies. Imports no TensorFlow."""

import dataclasses

from seed_rl.environments.failures import FailureConfig
from seed_rl.options import Options, option, part
from seed_rl.seeds import LARGEST_SEED
from seed_rl.wire.security import SecurityConfig, WebConfig


@dataclasses.dataclass(frozen=True)
class ServeConfig(Options):
    """Settings of a server of policies."""

    server_address: str = option(
        "unix:/tmp/seed_rl.sock", "Where clients connect: unix:PATH on one machine, HOST:PORT for TCP."
    )
    checkpoint: str = option(
        "last", "The checkpoint of the first run: last, best, or a path prefix.", is_path=True
    )
    greedy: bool = option(False, "Take the best action at every step, and do not explore.")
    follow: bool = option(False, "Take newer checkpoints of the runs, as they are written.")
    shares: str = option("", "Shares of the runs in the sessions, with commas; by default equal ones.")
    num_envs: int = option(256, "Most environments (sessions) of each run at a time.", at_least=1)
    inference_batch_size: int = option(64, "Most environments in a batch.", at_least=1)
    inference_timeout_ms: float = option(
        1.0, "Longest time that a request waits for others to fill its batch, in milliseconds.", at_least=0
    )
    report_secs: float = option(60.0, "Seconds between two reports of returns.", above=0)
    seed: int = option(1, "Seed of what is drawn.", at_least=0, at_most=LARGEST_SEED)
    trust_code: bool = option(False, "Import the modules that the runs' records name; see seed_rl evaluate.")
    security: SecurityConfig = part(SecurityConfig)
    web: WebConfig = part(WebConfig)
    failures: FailureConfig = part(FailureConfig)

    def shares_of(self, count: int) -> list[float]:
        """The shares of so many runs.

        Raises:
          ValueError: they are not so many positive numbers.
        """
        if not self.shares:
            return [1.0] * count
        try:
            shares = [float(share) for share in self.shares.split(",")]
        except ValueError:
            shares = []
        if len(shares) != count or not all(0 < share < float("inf") for share in shares):
            raise ValueError(
                f"--shares={self.shares} must be {count} positive numbers, one for each run, such as 0.9,0.1."
            )
        return shares
