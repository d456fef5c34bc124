"""Settings of an evaluation. Imports no TensorFlow."""

import dataclasses

from seed_rl.environments.failures import FailureConfig
from seed_rl.options import Options, option, part
from seed_rl.seeds import LARGEST_SEED


@dataclasses.dataclass(frozen=True)
class EvaluateConfig(Options):
    """What to evaluate, for how many episodes, and where the results go."""

    logdir: str | None = option(None, "Directory of the run to evaluate.", is_path=True)
    checkpoint: str = option(
        "last",
        "The checkpoint to evaluate: last, best (by the run's own mean return), or a path prefix such as "
        ".../ckpt-1200.",
        is_path=True,
    )
    episodes: int = option(200, "Number of episodes to play.", at_least=1)
    num_envs: int = option(16, "Number of environments played at the same time.", at_least=1)
    greedy: bool = option(
        False,
        "Take the best action at every step. By default V-trace samples from its policy, and R2D2 explores "
        "with the run's --eval_epsilon (paper: 1e-3).",
    )
    seed: int = option(
        1,
        "Seed of the evaluation; each episode derives its own from this and its number.",
        at_least=0,
        at_most=LARGEST_SEED,
    )
    output: str | None = option(
        None,
        "JSON file for the results; by default evaluations/ckpt-UPDATES.json in the run directory.",
        is_path=True,
    )
    record: str | None = option(
        None,
        "Video file, .mp4 or .gif, with the best and a typical (median) episode. Needs the extra [record].",
        is_path=True,
    )
    trust_code: bool = option(
        False,
        "Import the modules that the run's record names (--game=module:Id, --network=module:Class), also if "
        "they are neither part of an installed package nor on PYTHONPATH.",
    )
    overwrite: bool = option(False, "Overwrite results and videos that already exist.")
    failures: FailureConfig = part(FailureConfig)

    def validate(self) -> None:
        """Checks that the video's name ends in a supported format."""
        if self.record is not None and not self.record.endswith((".mp4", ".gif")):
            raise ValueError(
                f"--record={self.record} has no supported format; its name must end in .mp4 or .gif."
            )
