"""The rules of the house, held by walking the source (ARCHITECTURE.md has the reasons)."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "seed_rl"

# A room imports only from floors below its own, and from itself. Modules that are in no room are mains.
FLOORS = {
    "types": 0,
    "options": 0,
    "files": 0,
    "wire": 1,
    "environments": 1,
    "ops": 1,
    "actor": 2,
    "networks": 2,
    "experience": 2,
    "agents": 3,
    "inference": 4,
    "training": 4,
    "runs": 4,
    "evaluation": 5,
    "learner": 5,
    "plotting": 5,
    "flags": 6,
    "launch": 6,
    "cluster": 6,
    "sweeps": 6,
}
MAINS_FLOOR = 6

# Imports that the floors forbid and that are right all the same: (importing module, imported module).
# Not listed: a room's config.py holds settings only, and whoever needs them may import it.
EXCEPTIONS: set[tuple[str, str]] = set()

TENSORFLOW_FREE = (
    "wire",
    "environments",
    "actor",
    "runs",
    "plotting",
    "flags",
    "launch",
    "cluster",
    "sweeps",
)
TENSORFLOW_FREE_MODULES = (
    "seed_rl.actor_main",
    "seed_rl.local_main",
    "seed_rl.cluster_main",
    "seed_rl.launch.vertex",
    "seed_rl.plot",
    "seed_rl.sweep",
    "seed_rl.agents.registry",
    "seed_rl.inference.batcher",
    "seed_rl.learner.config",
    "seed_rl.training.config",
)

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 80


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(p): p for p in sorted(PACKAGE.rglob("*.py")) if "generated" not in p.parts}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in SOURCES.items()}


def imported_modules(tree: ast.AST) -> set[str]:
    """Everything imported anywhere in a file, `from package import module` included as package.module."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "Imports are absolute."
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def room_of(module: str) -> str | None:
    """The room; None for seed_rl itself, which everybody may import."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def floor_of(module: str) -> int:
    room = room_of(module)
    if room is None or module.split(".")[-1] == "config":
        return 0
    return FLOORS.get(room, MAINS_FLOOR)


def broken_floors(module: str, imports: set[str]) -> list[str]:
    known = [name for name in imports if name in SOURCES or name.startswith("seed_rl.wire.generated")]
    return [
        f"{module} -> {target}"
        for target in known
        if room_of(target) not in (None, room_of(module))
        and (module, target) not in EXCEPTIONS
        and not (floor_of(target) == 0 if floor_of(module) == 0 else floor_of(target) < floor_of(module))
        and not (floor_of(module) == MAINS_FLOOR == floor_of(target))
    ]


@pytest.mark.parametrize("module", SOURCES)
def test_rooms_import_only_from_lower_floors(module):
    assert broken_floors(module, imported_modules(TREES[module])) == []


def test_the_floors_are_really_held():
    assert broken_floors("seed_rl.wire.codec", {"seed_rl.agents.base"})
    assert broken_floors("seed_rl.inference.core", {"seed_rl.training.config"}) == []
    assert broken_floors("seed_rl.types", {"seed_rl.wire.codec"})
    assert broken_floors("seed_rl.wire.codec", {"seed_rl.environments.base"})


def test_every_room_has_a_floor():
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms - set(FLOORS) == set()


def tensorflow_free_modules() -> list[str]:
    return [name for name in SOURCES if room_of(name) in TENSORFLOW_FREE]


@pytest.mark.parametrize("module", tensorflow_free_modules())
def test_rooms_of_the_actor_name_no_tensorflow(module):
    roots = {name.split(".")[0] for name in imported_modules(TREES[module])}
    assert roots.isdisjoint({"tensorflow", "keras", "tf_keras", "tensorboard"})


@pytest.mark.parametrize("module", TENSORFLOW_FREE_MODULES)
def test_import_leaves_tensorflow_out(module):
    code = f"import sys, {module}; sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=env, timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or f"{module} imports TensorFlow"


@pytest.mark.parametrize("module", SOURCES)
def test_flags_are_read_only_at_the_edge(module):
    names = {node.id for node in ast.walk(TREES[module]) if isinstance(node, ast.Name)}
    assert "FLAGS" not in names
    if room_of(module) != "flags":
        assert imported_modules(TREES[module]).isdisjoint({"absl.flags", "absl.app", "argparse"})


@pytest.mark.parametrize("module", SOURCES)
def test_modules_are_documented_short_and_well_named(module):
    tree, path = TREES[module], SOURCES[module]
    assert ast.get_docstring(tree), "Every module says in a docstring what it is."
    assert path.stem not in ("utils", "util", "helpers", "misc", "common")
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    long = [f.name for f in functions if (f.end_lineno or 0) - f.lineno + 1 > MAX_FUNCTION_LINES]
    assert long == []


@pytest.mark.parametrize("module", SOURCES)
def test_modules_keep_no_mutable_state(module):
    for node in ast.walk(TREES[module]):
        assert not isinstance(node, ast.Global), f"line {node.lineno}: a global is assigned in a function."
