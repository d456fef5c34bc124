"""Programs that keep their own loop: `--environment=external --spaces=spaces.json`.

Such a program attaches to the learner with `seed_rl.connect`, or speaks its protocol in another language. The
learner knows no more of its environments than their spaces, and starts no actors for them.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import gymnasium

from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.spaces_json import EXAMPLE, parse_spaces
from seed_rl.environments.specs import Spaces
from seed_rl.messages import one_line
from seed_rl.options import option


@dataclasses.dataclass(frozen=True)
class ExternalConfig(EnvironmentConfig):
    """Settings of environments in programs that attach."""

    spaces: str = option(
        "",
        "File with the spaces of an observation and an action as JSON, such as "
        f"'{EXAMPLE}'; or such a text itself.",
    )

    def validate(self) -> None:
        """Reads the file, if it is one, and writes the spaces in one form."""
        self.refuse_own_actions("is for environments that actors make, and external programs make their own")
        if not self.spaces:  # Refused by `parsed`.
            return
        text = self.spaces
        shown = f"--spaces={one_line(text, 100)}"
        if not text.lstrip().startswith("{"):
            try:
                text = Path(text).read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
                raise ValueError(
                    f"{shown} cannot be read ({why}); write the spaces there, such as {EXAMPLE}."
                ) from None
        try:
            parse_spaces(text)
        except ValueError as error:
            raise ValueError(f"{shown} has no spaces: {error}; write something like {EXAMPLE}.") from None
        object.__setattr__(self, "spaces", json.dumps(json.loads(text), sort_keys=True))

    @property
    def attaches(self) -> bool:
        """Always True."""
        return True

    @property
    def parsed(self) -> Spaces:
        """The spaces; ValueError if none are given."""
        if not self.spaces:
            raise ValueError(f"--environment=external needs --spaces, a file with something like {EXAMPLE}.")
        return parse_spaces(self.spaces)


class External(gymnasium.Env):
    """The spaces of an environment that is elsewhere."""

    def __init__(self, spaces: Spaces):
        self.observation_space, self.action_space = spaces

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Refuses: the environment is elsewhere."""
        raise ValueError(
            "An external environment runs in a program of its own, which attaches with seed_rl.connect; "
            "nothing here can play it."
        )

    def step(self, action: Any) -> Any:
        """Refuses, as `reset` does."""
        return self.reset()


SUITE = Suite(ExternalConfig, lambda config, seed, render_mode=None: External(config.parsed))
