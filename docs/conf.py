"""Builds the documentation site: `python -m sphinx -W docs docs/_build`."""

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import seed_rl  # noqa: E402
from seed_rl.actor.actor_config import ActorConfig  # noqa: E402
from seed_rl.algorithms import registry as algorithms  # noqa: E402
from seed_rl.cluster.cluster_config import ClusterConfig  # noqa: E402
from seed_rl.commands import COMMANDS, main_of  # noqa: E402
from seed_rl.environments import registry as environments  # noqa: E402
from seed_rl.files import write_atomically  # noqa: E402
from seed_rl.flags.command_line import INTRODUCTION  # noqa: E402
from seed_rl.launch.plan import LocalConfig  # noqa: E402
from seed_rl.learner.learner_config import LearnerConfig  # noqa: E402
from seed_rl.options import Options  # noqa: E402

project = "seed_rl"
author = "The seed_rl maintainers"
copyright = f"2026, {author}"
release = seed_rl.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
extensions += ["sphinx_copybutton"] if find_spec("sphinx_copybutton") else []
copybutton_prompt_text = "$ "
exclude_patterns = ["_build", "ray"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
smartquotes = False  # `--flag` would get a dash.
html_title = f"seed_rl {release}"
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "dollarmath"]
autodoc_typehints = "signature"
nitpick_ignore_regex = [("py:.*", ".*")]


def flag_table(config_class: type[Options], but: set[str] = frozenset()) -> Iterator[str]:  # type: ignore[assignment]
    """The flags of a configuration as a Markdown table, but for those named in `but`."""
    yield "| flag | default | |\n|---|---|---|\n"
    for leaf in config_class.leaves():
        if "help" in leaf.metadata and leaf.name not in but:
            default = "" if leaf.default is None else f"`{str(leaf.default).lower()}`"
            choices = leaf.metadata["choices"]
            text = leaf.metadata["help"] + (f" One of {', '.join(choices)}." if choices else "")
            yield f"| `--{leaf.name}` | {default} | {escaped(text)} |\n"
    yield "\n"


def escaped(text: str) -> str:
    """Text as it stands in a cell of a Markdown table."""
    for special in ("\\", "|", "*", "_", "<", "[", "`", "$"):
        text = text.replace(special, f"\\{special}")
    return text


def help_of(command: str) -> str:
    """What stands above the flags in the help of a command."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        main_of(command)([f"seed_rl {command}", "--help"])
    return re.split(rf"\n\n({INTRODUCTION}|[^\n]*:\n  -)", shown.getvalue())[0].strip()


def commands_page() -> Iterator[str]:
    """Every command with its help."""
    yield "# Commands\n\nThis page is made from the commands' own help.\n\n"
    for name, text in COMMANDS.items():
        yield f"## seed_rl {name}\n\n{text[0].upper()}{text[1:]}.\n\n```text\n{help_of(name)}\n```\n\n"


def flags_page() -> Iterator[str]:
    """Every flag of training, by what it belongs to."""
    yield "# Flags\n\nEvery flag of `seed_rl train`, made from the source. `seed_rl train ENVIRONMENT AGENT "
    yield "--help` shows the values that this very command would use.\n\n## Launcher\n\n"
    yield from flag_table(LocalConfig)
    yield "## Learner\n\n"
    yield from flag_table(LearnerConfig)
    yield "## Actors\n\n"
    yield from flag_table(ActorConfig)
    yield "## Ray\n\nOnly `seed_rl cluster` has these.\n\n"
    yield from flag_table(ClusterConfig)
    yield "## Environments\n\n"
    for name in environments.names():
        yield f"### {name}\n\n"
        yield from flag_table(environments.suite(name).config_class)
    yield "## Agents\n\n"
    for name in algorithms.names():
        yield f"### {name}\n\n"
        yield from flag_table(algorithms.config_class(name))


def generate(app: Any) -> None:
    """Writes the pages that are made from the source."""
    folder = Path(app.srcdir) / "generated"
    folder.mkdir(exist_ok=True)
    for name, page in (("commands", commands_page), ("flags", flags_page)):
        write_atomically(folder / f"{name}.md", "".join(page()))


def setup(app: Any) -> None:
    """Makes the pages before they are read."""
    app.connect("builder-inited", generate)
