"""The environments that a learner gives an actor: names from the registry and JSON values, never code."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.batched import BatchedEnvironment
from seed_rl.environments.failures import FailureConfig
from seed_rl.environments.making import make_batch
from seed_rl.files import parse_json
from seed_rl.messages import one_line
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import differences


class EnvironmentRefusedError(ValueError):
    """The environments cannot be made; one sentence."""


def chosen(
    welcome: pb.Welcome, given: Mapping[str, Any], suites: Callable[[str], Suite]
) -> tuple[Suite, EnvironmentConfig]:
    """The suite and its settings in a Welcome; `given` has the settings that the user gave by flag.

    Raises:
      EnvironmentRefusedError: flags contradict the learner, or there is no such suite here.
    """
    try:
        said = {"environment": welcome.suite}
        said |= {name: parse_json(value) for name, value in welcome.settings.items()}
    except ValueError:
        raise EnvironmentRefusedError("The learner's settings of the environment are no JSON.") from None
    for name, value in given.items():
        if name not in said or value != said[name]:
            raise EnvironmentRefusedError(
                f"--{name}={value} contradicts the learner, which has {_shown(said.get(name))}; leave "
                "it out, or change the learner's."
            )
    try:
        suite = suites(said.pop("environment"))
        suite.config_class.check_types(said)
        _refuse_code(suite, said, given)
        return suite, suite.config_class.of(**said)
    except TypeError as error:
        raise EnvironmentRefusedError(
            f"This actor does not know the learner's settings of {welcome.suite} ({error}); install the same "
            "seed_rl on both."
        ) from None
    except ValueError as error:
        raise EnvironmentRefusedError(f"What the learner plays cannot be made here: {error}") from None


def _refuse_code(suite: Suite, settings: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuses to import what only the learner names."""
    for name in suite.config_class.named_code(settings):
        if name not in given:
            raise ValueError(
                f"--{name}={_shown(settings[name])} names a module to import; give this actor the "
                "flag as well, with --environment, if you trust it."
            )


def _shown(value: Any) -> str:
    return one_line(str(value), 100)


def make_environment(
    suite: tuple[Suite, EnvironmentConfig],
    welcome: pb.Welcome,
    seeds: Sequence[int],
    failures: FailureConfig,
    first_env: int,
) -> BatchedEnvironment:
    """Makes the environments of a group, and checks that they have the learner's arrays.

    Raises:
      EnvironmentRefusedError: they cannot be made, or have others.
    """
    try:
        environment = make_batch(*suite, list(seeds), failures, first_env)
    except (ValueError, ImportError) as error:
        raise EnvironmentRefusedError(str(error)) from error
    if found := differences(environment.spec, welcome):
        environment.close()
        raise EnvironmentRefusedError(
            f"The environments of this actor do not match the learner's ({'; '.join(found)}): install "
            "the same versions on both."
        )
    return environment
