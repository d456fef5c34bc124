"""Rebuilds from a run directory what trained there: the environments, and the policy of a checkpoint."""

import contextlib
import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from seed_rl.environments import registry as environments
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import FailureConfig
from seed_rl.environments.making import Probed
from seed_rl.launch.probe import Probe, found
from seed_rl.loading import fast_tensorflow_import
from seed_rl.options import Options, option
from seed_rl.runs import record
from seed_rl.runs.imports import check_imports
from seed_rl.runs.record import RunRecord
from seed_rl.seeds import derived_seed
from seed_rl.types import EnvironmentSpec

if TYPE_CHECKING:
    from seed_rl.evaluation.load import Trained


@dataclasses.dataclass(frozen=True)
class SubjectConfig(Options):
    """Run, and one of its checkpoints."""

    logdir: str | None = option(None, "Directory of the run; it can be given without the flag.", is_path=True)
    checkpoint: str = option(
        "last",
        "The checkpoint: last, best (by the run's own mean return), or a path prefix such as .../ckpt-1200.",
        is_path=True,
    )
    trust_code: bool = option(
        False,
        "Import the modules that the run's record names (--game=module:Id, --network=module:Class), also if "
        "they are neither installed nor on PYTHONPATH, and the run was not trained here by this user.",
    )


class Subject(NamedTuple):
    """A run, its environments, and a policy that it trained.

    Attributes:
      run: the record of the run.
      suite: the suite of the run's environments.
      environment_config: their settings, for evaluation.
      probed: facts about them.
      trained: the policy with the weights of a checkpoint.
    """

    run: RunRecord
    suite: Suite
    environment_config: EnvironmentConfig
    probed: Probed
    trained: "Trained"

    @property
    def spec(self) -> EnvironmentSpec:
        """The spec of the environments."""
        return self.probed.spec

    @property
    def evaluation_env_id(self) -> int:
        """The first id of environments that only evaluate; the ids of training are below it."""
        return int(self.run.learner_settings["num_envs"])


def load_subject(
    logdir: str,
    checkpoint: str,
    *,
    trust_code: bool,
    seed: int = 1,
    failures: FailureConfig = FailureConfig(),  # noqa: B008 (immutable)
) -> Subject:
    """Rebuilds the agent of a run, and probes its environments; imports TensorFlow, seeds Keras and NumPy.

    Args:
      logdir: the run directory.
      checkpoint: `last`, `best`, or a path prefix.
      trust_code: whether to import the modules that the run's record names, wherever they are.
      seed: of Keras and NumPy.
      failures: how often making an environment may fail.

    Raises:
      ValueError: this is not a run directory, or has no such checkpoint; one sentence.
      ImportError: the suite's engine is not installed.
    """
    run = record.read(logdir)
    check_imports(run, trust_code)
    suite = environments.suite(run.environment)
    config = run.environment_config().for_evaluation()

    with contextlib.closing(Probe([(run.environment, config.to_dict())], failures)) as probe:
        with fast_tensorflow_import():
            import keras

            from seed_rl.devices.placement import share_gpus
            from seed_rl.evaluation.load import find_checkpoint, load

        share_gpus()
        prefix = find_checkpoint(run, checkpoint)
        probed = found(*probe.answers())
        probe.warn()
    keras.utils.set_random_seed(derived_seed(seed))
    return Subject(run, suite, config, probed, load(run, prefix, probed.spec))
