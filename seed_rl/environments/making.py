"""Makes environments of a suite: those that step together, and one to look at its spaces."""

from collections.abc import Sequence

from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.batched import BatchedEnvironment
from seed_rl.environments.failures import NO_FAILURES, EnvironmentFailedError, FailureConfig, Watched
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.specs import environment_spec
from seed_rl.environments.vector import VectorEnvironment, make_vector
from seed_rl.seeds import derived_seed
from seed_rl.types import EnvironmentSpec


def make_batch(
    suite: Suite,
    config: EnvironmentConfig,
    seeds: Sequence[int],
    tolerance: FailureConfig = NO_FAILURES,
    first_env: int = 0,
) -> BatchedEnvironment:
    """One environment per seed, single ones or a vector, as the settings say; raises what these raise."""
    batch = VectorEnvironment if config.is_vector else SingleEnvironments
    return batch(suite, config, seeds, tolerance, first_env)


def suite_spec(
    suite: Suite,
    config: EnvironmentConfig,
    seed: int,
    tolerance: FailureConfig = FailureConfig(),  # noqa: B008 (immutable)
) -> EnvironmentSpec:
    """The spec of a suite's environments; makes one environment to find out, and closes it.

    The environment's seed is derived from `seed`. Making it may fail and take time as `tolerance` says.

    Raises:
      ValueError: the suite refuses the configuration, a space is not supported, or the environment fails.
      ImportError: the suite's engine is not installed.
    """

    def make(failures: int) -> object:
        own = derived_seed(seed, 0, failures)
        if config.is_vector:
            return make_vector(suite, config, [own], any_size=True)
        return suite.make(config, own)

    watched = Watched("Environment 0", make, tolerance)
    try:
        return environment_spec(watched.make(), config)
    except EnvironmentFailedError as error:
        raise ValueError(f"{error.what}; fix the environment.") from error
    finally:
        watched.close()
