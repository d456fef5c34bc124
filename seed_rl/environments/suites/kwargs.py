"""Arguments of an environment's constructor, as suites with environments of others take them."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from seed_rl.environments.base import EnvironmentConfig
from seed_rl.files import parse_json
from seed_rl.messages import one_line
from seed_rl.options import option

_FORM = """write it like --env_kwargs='{"size": 7}'"""


@dataclasses.dataclass(frozen=True)
class KwargsConfig(EnvironmentConfig):
    """Settings of environments whose constructors have arguments of their own."""

    env_kwargs: str = option(
        "{}",
        "Arguments of the environment's constructor, as a JSON object by name: '{\"size\": 7}'.",
    )

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by name."""
        return parse_json(self.env_kwargs)

    def _check_kwargs(self, refused: Mapping[str, str]) -> None:
        """Checks `env_kwargs`, and writes it in one form, so that equal arguments compare as equal.

        `refused` has names that it must not have, and what to do instead.
        """
        shown = f"--env_kwargs={one_line(self.env_kwargs, 100)}"
        try:
            kwargs = self.kwargs
        except ValueError as error:
            raise ValueError(f"{shown} is not JSON ({error}); {_FORM}.") from None
        if not isinstance(kwargs, dict):
            raise ValueError(f"{shown} is not a JSON object; {_FORM}.")
        for name, instead in refused.items():
            if name in kwargs:
                raise ValueError(f"{shown} must not have {name!r}: {instead}.")
        object.__setattr__(self, "env_kwargs", json.dumps(kwargs, sort_keys=True))
