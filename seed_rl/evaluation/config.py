"""Settings of an evaluation. Imports no TensorFlow."""

import dataclasses

from seed_rl.options import Options, option


@dataclasses.dataclass(frozen=True)
class EvaluateConfig(Options):
    """What is evaluated, how long, and where the results go."""

    logdir: str | None = option(None, "Directory of the run.")
    checkpoint: str = option(
        "last", "Which checkpoint: last, best (by the run's own evaluation), or a path prefix, .../ckpt-1200."
    )
    episodes: int = option(200, "Episodes that are played.", at_least=1)
    num_envs: int = option(16, "Environments that play at the same time.", at_least=1)
    greedy: bool = option(
        False,
        "Take the best action at every step. By default V-trace samples from its policy, and R2D2 explores "
        "with the run's --eval_epsilon (paper: 1e-3).",
    )
    seed: int = option(1, "Seed of the first episode; episode i has seed + i.")
    output: str | None = option(
        None, "JSON file of the results; by default evaluations/ckpt-UPDATES.json in the run directory."
    )
    record: str | None = option(
        None, "Video, .mp4 or .gif, of the best episode and of a typical one (the median). Needs [record]."
    )
    overwrite: bool = option(False, "Write over results and videos that are there already.")

    def validate(self) -> None:
        """The video's format follows from its name."""
        if self.record is not None and not self.record.endswith((".mp4", ".gif")):
            raise ValueError(f"--record={self.record} has no format; end it in .mp4 or .gif.")
