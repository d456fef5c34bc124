"""Rules of the project, checked in the source (ARCHITECTURE.md has the reasons).

Each rule is one test over all modules: it fails with a sentence for every place that breaks the rule.
"""

import ast
import collections
import concurrent.futures
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "seed_rl"

# A package imports only from layers below its own, and from itself. Commands do not import one another.
# A module with a layer of its own imports less than the rest of its package.
LAYERS = {
    "runs.layout": 0,
    "types": 0,
    "options": 0,
    "files": 0,
    "messages": 0,
    "loading": 0,
    "seeds": 0,
    "signals": 0,
    "metrics": 1,
    "metrics.batches": 3,
    "paper": 1,
    "wire": 1,
    "environments": 1,
    "ops": 1,
    "actor": 2,
    "networks": 2,
    "experience": 2,
    "devices": 2,
    "serving": 2,
    "algorithms": 3,
    "hosts.addresses": 1,
    "hosts": 3,
    "inference": 4,
    "training": 4,
    "learner": 5,
    "policy_actor": 5,
    "runs": 6,
    "evaluation": 7,
    "plotting": 7,
    "flags": 7,
    "launch.reaper": 1,
    "launch.child": 2,
    "launch.probe": 3,
    "launch": 8,
    "cluster": 9,
    "sweeps": 9,
    "commands": 10,
    "__main__": 11,
    "api": 11,
}
TOP_LAYER = 11

TENSORFLOW_FREE = (
    "wire",
    "environments",
    "actor",
    "serving",
    "paper",
    "runs",
    "plotting",
    "flags",
    "launch",
    "cluster",
    "sweeps",
)
TENSORFLOW_FREE_MODULES = (
    "seed_rl.commands.actor",
    "seed_rl.commands.train",
    "seed_rl.commands.cluster",
    "seed_rl.commands.vertex",
    "seed_rl.commands.plot",
    "seed_rl.commands.report",
    "seed_rl.commands.doctor",
    "seed_rl.commands.list",
    "seed_rl.commands.sweep",
    "seed_rl.algorithms.registry",
    "seed_rl.serving.batcher",
    "seed_rl.hosts.team",
    "seed_rl.learner.learner_config",
    "seed_rl.training.training_config",
    "seed_rl.metrics.cpu",
    "seed_rl.metrics.idle_time",
)

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60


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


def package_of(module: str) -> str | None:
    """The package; None for seed_rl itself, which every package may import."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def layer_of(module: str) -> int:
    parts = module.split(".")[1:]
    return LAYERS.get(".".join(parts[:2]), LAYERS.get(parts[0], TOP_LAYER))


def broken_layers(module: str, imports: set[str]) -> list[str]:
    package = package_of(module)
    known = [name for name in imports if name in SOURCES or name.startswith("seed_rl.wire.generated")]
    return [
        f"{module} -> {target}"
        for target in known
        if (other := package_of(target)) is not None
        and (other != package or (package == "commands" and target != "seed_rl.commands"))
        and (package is None or layer_of(target) >= layer_of(module))
    ]


def hold(violations: Iterable[str]) -> None:
    """Fails with all the sentences that there are."""
    found = list(violations)
    assert not found, "\n" + "\n".join(found)


def test_packages_import_only_from_lower_layers():
    hold(
        f"{broken}: a package imports only from layers below its own."
        for module, tree in TREES.items()
        for broken in broken_layers(module, imported_modules(tree))
    )


def test_every_package_has_a_layer():
    packages = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    hold(
        f"seed_rl/{package} has no layer in tests/test_layers.py."
        for package in sorted(packages - set(LAYERS))
    )
    there = packages | {path.stem for path in PACKAGE.glob("*.py")}
    hold(
        f"{package} has a layer in tests/test_layers.py and is not there."
        for package in sorted(set(LAYERS) - there - {name.removeprefix("seed_rl.") for name in SOURCES})
    )


def circles(imports: dict[str, set[str]]) -> Iterator[str]:
    """Sets of modules of which each imports, directly or not, all others; also where a function imports."""
    reached = {module: set(found) & imports.keys() for module, found in imports.items()}
    for through in reached:
        for module in reached:
            if through in reached[module]:
                reached[module] |= reached[through]
    circles = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in reached
        if module in reached[module]
    }
    for circle in sorted(map(sorted, circles)):
        yield f"{', '.join(circle)} import one another; move what they share to a module below them."


def test_no_modules_import_one_another():
    hold(circles({module: imported_modules(tree) for module, tree in TREES.items()}))


# Acting needs a policy only. A module that finds one in a run directory makes the whole algorithm.
POLICY = "seed_rl.algorithms.policy"
ACTING = (
    "seed_rl.inference",
    "seed_rl.evaluation",
    "seed_rl.training.export",
    "seed_rl.training.export_onnx",
)
FINDS_POLICIES = "seed_rl.evaluation.load"


def acts(module: str) -> bool:
    inside = any(module == name or module.startswith(f"{name}.") for name in ACTING)
    return inside and module != FINDS_POLICIES


def more_than_a_policy(module: str, tree: ast.AST) -> Iterator[str]:
    for name in sorted(imported_modules(tree)):
        is_policy = name == POLICY or name.startswith(f"{POLICY}.")
        if name.startswith("seed_rl.algorithms.") and not is_policy:
            yield f"{module} imports {name}; acting needs seed_rl.algorithms.policy only."


def test_acting_imports_policies_only():
    assert {module for module in TREES if acts(module)} >= {
        "seed_rl.inference.core",
        "seed_rl.evaluation.agent",
        "seed_rl.training.export",
    }
    hold(
        sentence
        for module, tree in TREES.items()
        if acts(module)
        for sentence in more_than_a_policy(module, tree)
    )


def tensorflow_named(module: str, tree: ast.AST) -> Iterator[str]:
    roots = {name.split(".")[0] for name in imported_modules(tree)}
    for name in sorted(roots & {"tensorflow", "keras", "tf_keras", "tensorboard"}):
        yield f"{module} imports {name}, which an actor's machine does not have."


def test_packages_of_the_actor_name_no_tensorflow():
    hold(
        sentence
        for module, tree in TREES.items()
        if package_of(module) in TENSORFLOW_FREE
        for sentence in tensorflow_named(module, tree)
    )


def import_alone(module: str) -> str | None:
    """Imports the module in a process of its own; what is wrong, or None."""
    code = f"import sys, {module}; sys.exit(3 * ('tensorflow' in sys.modules or 'keras' in sys.modules))"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=env, timeout=120, capture_output=True, text=True)
    if done.returncode == 3:
        return f"{module} brings TensorFlow or Keras when it is imported."
    return f"{module} cannot be imported by itself: {done.stderr}" if done.returncode else None


def test_import_leaves_tensorflow_out():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        hold(filter(None, pool.map(import_alone, TENSORFLOW_FREE_MODULES)))


def flags_read(module: str, tree: ast.AST) -> Iterator[str]:
    if any(isinstance(node, ast.Name) and node.id == "FLAGS" for node in ast.walk(tree)):
        yield f"{module} reads FLAGS."
    if package_of(module) != "flags":
        for name in sorted(imported_modules(tree) & {"absl.flags", "absl.app", "argparse"}):
            yield f"{module} imports {name}; only seed_rl.flags may."


def test_flags_are_read_only_at_the_edge():
    hold(sentence for module, tree in TREES.items() for sentence in flags_read(module, tree))


def badly_shaped(module: str, tree: ast.Module, path: Path) -> Iterator[str]:
    if path.stem in ("utils", "util", "helpers", "misc", "common"):
        yield f"{module} has a name without a meaning."
    lines = len(path.read_text(encoding="utf-8").splitlines())
    if lines > MAX_FILE_LINES:
        yield f"{module} has {lines} lines; at most {MAX_FILE_LINES} are allowed."
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{module}.{node.name} has {lines} lines; at most {MAX_FUNCTION_LINES} are allowed."


def test_modules_are_short_and_well_named():
    hold(
        sentence for module, tree in TREES.items() for sentence in badly_shaped(module, tree, SOURCES[module])
    )


def test_names_are_telling_and_no_class_has_that_of_another():
    """A module is named after what it configures, and a docstring opens with a noun."""
    places = collections.defaultdict(list)
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(module)
    hold(
        f"{', '.join(modules)}: several classes are called {name}."
        for name, modules in places.items()
        if modules[1:]
    )
    hold(f"{module}: name what it configures." for module in TREES if module.endswith(".config"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    hold(
        f"{module}, line {getattr(node, 'lineno', 1)}: {text.split()[0]} opens a docstring, not a noun."
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, documented)
        and (text := ast.get_docstring(node))
        and text.split()[0] in ("What", "How", "Which", "Why", "Where", "Whose")
    )
