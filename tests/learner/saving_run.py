"""A saver with a tiny algorithm, and experience that is one line of text."""

from pathlib import Path

from seed_rl.learner.team import Team

from seed_rl.files import write_atomically
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.learner.saving import Saver
from seed_rl.training.trainer import Trainer
from tests.learner.test_loop import Bandit
from tests.serving.harness import SPEC


class Experience:
    """Its contents are a text.

    Attributes:
      contents: what was last added or restored; empty if nothing was.
    """

    is_saved = True

    def __init__(self):
        self.contents = ""

    def save(self, path):
        write_atomically(Path(path), self.contents)

    def restore(self, path):
        if Path(path).exists():
            self.contents = Path(path).read_text()


class SavingRun:
    """A learner that has resumed what is in its directory, if anything.

    Attributes:
      saver: under test.
      experience: what it saves besides checkpoints.
    """

    def __init__(self, logdir):
        config = LearnerConfig(logdir=str(logdir), num_envs=4, batch_size=1)
        algorithm = Bandit()
        self._trainer = Trainer(algorithm, config)
        self.saver = Saver(config, SPEC, algorithm, self._trainer, Team())
        self.experience = Experience()
        self.saver.restore_experience(self.experience)
        self._figures = self.saver.make_metrics(config)

    def save(self, frames):
        """Saves as after so many frames, and as many updates."""
        self.experience.contents = f"at {frames}"
        self._trainer.iteration.assign(frames)
        self._trainer.updates = frames
        self.saver.save(frames, self._figures, self.experience)
