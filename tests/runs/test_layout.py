"""The names in a run directory: what they are, and that nothing else in the package spells them out."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from seed_rl.runs.layout import CheckpointDirectory, RunDirectory

ROOT = Path(__file__).resolve().parents[2]
LAYOUT = ROOT / "seed_rl" / "runs" / "layout.py"
RUN = RunDirectory(Path("run"))
PATH_CALLS = ("Path", "join", "joinpath", "with_name")


def named_paths() -> set[Path]:
    """Every file and folder without a number in its name, within the run directory."""
    found = set()
    for directory in (RUN, RUN.checkpoints, RUN.best_checkpoints):
        for name, _ in inspect.getmembers(type(directory), lambda member: isinstance(member, property)):
            value = getattr(directory, name)
            found.add((value if isinstance(value, Path) else value.path).relative_to(RUN.path))
    return found


NAMES = {part for path in named_paths() for part in path.parts}
NUMBERED = (RUN.actor_log(7), RUN.learner_log(7), RUN.checkpoints.prefix(7))
WORDS = {name for name in NAMES if name.isalpha()}  # "best" means other things elsewhere.


def _numbered(name: str) -> str:
    before, after = map(re.escape, name.split("7"))
    return rf"{before}(?:\{{\}}|\d+|\*){after}|^{before}$"


SPELLED = re.compile(
    "|".join(
        [
            *(rf"(?<![\w.-]){re.escape(name)}(?!\w)" for name in sorted(NAMES - WORDS)),
            *(rf"(?<=/){word}(?=/|$)" for word in sorted(WORDS)),
            *(_numbered(path.name) for path in NUMBERED),
        ]
    )
)


def spelled_out(tree: ast.AST, is_config: bool = False) -> list[str]:
    """The strings of a module, docstrings aside, that name something in a run directory.

    The sentences of a config.py are left out as well: it may import nothing that could tell it the names.
    """
    return [
        text
        for text, builds_path in _strings(tree)
        if (SPELLED.search(text) and not (is_config and " " in text)) or (builds_path and text in WORDS)
    ]


def _strings(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Each string, with {} for the values in an f-string, and whether it is part of a path or assigned."""
    parts, in_paths = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            parts.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            parts.update(node.values)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            in_paths.update((node.left, node.right))
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in PATH_CALLS:
            in_paths.update(node.args)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            in_paths.add(node.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = (v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
            yield "".join(pieces), node in in_paths
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            yield node.value, node in in_paths


def test_only_the_layout_spells_the_names_out():
    sources = [path for path in sorted((ROOT / "seed_rl").rglob("*.py")) if path != LAYOUT]
    assert len(sources) > 100
    found = [
        f"{path.relative_to(ROOT)} spells out {text!r}; take it from runs/layout.py."
        for path in sources
        for text in spelled_out(ast.parse(path.read_text(encoding="utf-8")), path.stem == "config")
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "code",
    [
        '_RECORD = "run.json"',
        '_BEST: str = "best"',
        'path / "checkpoints"',
        '"runs" / path / "best"',
        'os.path.join(logdir, "tensorboard")',
        'Path(logdir, "evaluations")',
        'name = f"{logdir}/saved_model"',
        'name = f"{logdir}/tensorboard/{name}"',
        'name = f"{logdir}/metrics.jsonl is missing."',
        'name = f"actor_{number}.log"',
        '"actor_" + str(number) + ".log"',
        'directory.glob("ckpt-*.index")',
        'name.removeprefix("ckpt-")',
        'raise ValueError("There is no learner.lock.")',
    ],
)
def test_a_name_that_is_spelled_out_is_found(code):
    assert spelled_out(ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        '"""Writes run.json."""',
        'checkpoint in ("last", "best")',
        '{"checkpoint": 1, "evaluation": 2}',
        'tf.summary.scalar(f"evaluation/{name}", value)',
        'text = "Seconds between checkpoints."',
        '("actor_main", "actor_restarts", "saved_models", "rerun.json")',
    ],
)
def test_other_uses_of_the_words_are_free(code):
    assert spelled_out(ast.parse(code)) == []


def test_a_config_may_name_them_in_sentences_only():
    sentence, name = ast.parse('x = option("See run.json.")'), ast.parse('x = option("run.json")')
    assert spelled_out(sentence) and not spelled_out(sentence, is_config=True)
    assert spelled_out(name, is_config=True)


def test_the_page_names_everything():
    page = (ROOT / "docs" / "run_directory.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+?)`", page, re.MULTILINE)
    assert {row.rstrip("/") for row in rows} >= {str(path) for path in named_paths()}
    numbered = {"checkpoints/ckpt-UPDATES.*", "evaluations/ckpt-UPDATES.json"}
    assert numbered | {"actor_N.log", "learner_N.log"} <= set(rows)


def test_names_of_a_run_are_the_ones_that_users_know(tmp_path):
    run = RunDirectory(tmp_path)
    assert run.record == tmp_path / "run.json"
    assert run.metrics == tmp_path / "metrics.jsonl"
    assert run.lock == tmp_path / "learner.lock"
    assert run.saved_model == tmp_path / "saved_model"
    assert run.best_record == tmp_path / "checkpoints" / "best" / "best.json"
    assert run.replay() == tmp_path / "checkpoints" / "replay.bin"
    assert run.replay(1, 2) == tmp_path / "checkpoints" / "replay_1_of_2.bin"
    assert run.evaluation_events == tmp_path / "tensorboard" / "evaluation"
    assert run.actor_log(3) == tmp_path / "actor_3.log"
    assert run.learner_log(1) == tmp_path / "learner_1.log"
    assert run.evaluation(run.best_checkpoints.prefix(12)) == tmp_path / "evaluations" / "ckpt-12.json"
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_are_listed_from_the_newest(tmp_path):
    directory = CheckpointDirectory(tmp_path / "checkpoints")
    assert directory.prefixes() == []
    directory.path.mkdir()
    for name in ("ckpt-9.index", "ckpt-100.index", "ckpt-20.index", "ckpt-30.data-00000-of-00001"):
        (directory.path / name).touch()
    for name in ("ckpt-best.index", "ckpt-7_temp", "checkpoint", "other-5.index"):
        (directory.path / name).touch()
    assert directory.prefixes() == [directory.path / f"ckpt-{n}" for n in (100, 20, 9)]
