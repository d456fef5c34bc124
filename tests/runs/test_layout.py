"""The names in a run directory: what they are, and that nothing else in the package spells them out."""

import re
from pathlib import Path

from seed_rl.runs.layout import RunDirectory

ROOT = Path(__file__).resolve().parents[2]
RUN = RunDirectory(Path("run"))


def named_paths() -> set[Path]:
    """Every file and folder without a number in its name, within the run directory."""
    paths = (getattr(value, "path", value).relative_to(RUN.path) for value in vars(RUN).values())
    return {path for path in paths if path.parts}


def test_the_page_names_everything():
    page = (ROOT / "docs" / "run_directory.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+?)`", page, re.MULTILINE)
    assert {row.rstrip("/") for row in rows} >= {str(path) for path in named_paths()}
    numbered = {"checkpoints/ckpt-UPDATES.*", "evaluations/ckpt-UPDATES.json"}
    assert numbered | {"actor_N.log", "learner_N.log"} <= set(rows)


def test_checkpoints_are_listed_from_the_newest(tmp_path):
    run = RunDirectory(tmp_path)
    assert run.replay() == tmp_path / "checkpoints" / "replay.bin"
    assert run.replay(1, 2) == tmp_path / "checkpoints" / "replay_1_of_2.bin"
    assert run.evaluation(run.best_checkpoints.prefix(12)) == tmp_path / "evaluations" / "ckpt-12.json"
    assert list(tmp_path.iterdir()) == []
    directory = run.checkpoints
    assert directory.prefixes() == []
    directory.path.mkdir()
    for name in ("ckpt-9.index", "ckpt-100.index", "ckpt-20.index", "ckpt-30.data-00000-of-00001"):
        (directory.path / name).touch()
    for name in ("ckpt-best.index", "ckpt-7_temp", "checkpoint", "other-5.index"):
        (directory.path / name).touch()
    assert directory.prefixes() == [directory.path / f"ckpt-{n}" for n in (100, 20, 9)]
