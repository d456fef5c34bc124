import ast
import subprocess
import sys
import types
from pathlib import Path

import pytest

from seed_rl.algorithms import registry
from seed_rl.algorithms.registry import AlgorithmEntry, AlgorithmError
from seed_rl.flags.errors import UsageError
from seed_rl.launch.plan import resolve_run
from seed_rl.plotting.groups import method_name
from seed_rl.types import ArraySpec, EnvironmentSpec
from tests.algorithms import incomplete
from tests.installed import install
from tests.plotting.synthetic import make_record

SPEC = EnvironmentSpec(ArraySpec((3,), "float32"), ArraySpec((), "int32", (0,), (1,)))
INCOMPLETE = "tests.algorithms.incomplete"


def test_names_and_config_classes_import_no_tensorflow():
    code = (
        "import sys\nfrom seed_rl.algorithms import registry\n"
        "for name in registry.names(): registry.config_class(name)()\n"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.fixture
def add(tmp_path, monkeypatch):
    """Installs a package of somebody else's with these entry points; its module is `their_algorithms`."""
    module = types.ModuleType("their_algorithms")
    monkeypatch.setitem(sys.modules, "their_algorithms", module)

    def add(entries=None, **points):
        for name, entry in (entries or {}).items():
            setattr(module, name, entry)
            points.setdefault(name, f"their_algorithms:{name}")
        install(tmp_path, monkeypatch, "seed_rl.algorithms", **points)

    return add


def entry(make="make_complete", config_class="Settings"):
    return AlgorithmEntry(f"{INCOMPLETE}:{config_class}", f"{INCOMPLETE}:{make}")


def test_an_installed_package_adds_an_algorithm(add):
    built_in = registry.names()
    add({"sarsa": entry(), "vtrace": entry()})
    assert registry.names() == sorted([*built_in, "sarsa"])
    assert registry.config_class("sarsa") is incomplete.Settings
    assert isinstance(registry.make("sarsa", incomplete.Settings(), SPEC, 2), incomplete.Complete)
    assert registry.config_class("vtrace") is not incomplete.Settings  # Ours comes first.


GONE = r"\(their_algorithms:GONE\) cannot be loaded: module"
NO_ENTRY = r"their_algorithms:__name__, which is not a seed_rl\.algorithms\.registry\.AlgorithmEntry; change"


@pytest.mark.parametrize(
    ("point", "calls", "error", "words"),
    [
        ("nowhere:SARSA", "config_class make", ValueError, r"nowhere:SARSA\) cannot be loaded: No module"),
        ("their_algorithms:GONE", "config_class make", ValueError, GONE),
        ("their_algorithms:__name__", "config_class make", ValueError, NO_ENTRY),
        (entry(config_class="GONE"), "config_class", ValueError, ":GONE.* cannot be loaded: module"),
        (entry(config_class="Complete"), "config_class", ValueError, "has settings that are not a seed_rl"),
        (entry(config_class="make_complete"), "config_class", ValueError, "has settings that are not a "),
        (entry("gone"), "make", ValueError, ":gone.* cannot be loaded: module"),
        (
            entry("make_without_losses"),
            "make",
            AlgorithmError,
            r"is incomplete: .*WithoutLosses.*losses.*\.$",
        ),
        (entry("make_nothing"), "make", AlgorithmError, r"NoneType is not a seed_rl\.algorithms\.base\.Algo"),
        (entry("make_with_an_error"), "make", TypeError, "^a mistake of its own$"),
    ],
)
def test_what_is_no_algorithm_is_refused_in_words(add, point, calls, error, words):
    add(sarsa=point) if isinstance(point, str) else add({"sarsa": point})
    for call in calls.split():
        with pytest.raises(error, match=words) as caught:
            getattr(registry, call)("sarsa", *(incomplete.Settings(), SPEC, 1)[: 3 if call == "make" else 0])
        assert error is not ValueError or "--agent=sarsa" in str(caught.value)


def test_an_unknown_name_lists_the_installed_ones(add):
    add({"sarsa": entry()})
    with pytest.raises(ValueError, match=r"--agent=salsa .*; did you mean sarsa. Choose one of: .*sarsa, vt"):
        registry.config_class("salsa")


@pytest.mark.parametrize(
    ("args", "values"),
    [
        ((), {"learning_rate": 0.25, "replay_ratio": 3.0, "clip_norm": 7.0}),
        ((), {"num_eval_envs": 2, "total_environment_frames": 300_000}),  # As for our own with replay.
        (("--learning_rate=1", "--env_batch_size=4"), {"learning_rate": 1.0, "num_eval_envs": 1}),
        (("--replay_ratio=9",), {"method": "Sarsa, fast"}),
        ((), {"method": "Sarsa"}),
    ],
)
def test_an_algorithm_with_replay_from_elsewhere_has_defaults_and_a_name_as_ours(add, args, values):
    add({"sarsa": entry(config_class="SarsaOptions")})
    settings = resolve_run(["train", "catch", "sarsa", *args])
    method = method_name(make_record(agent="sarsa", **settings.agent_config().to_dict()))
    found = {**settings.values, "method": method}
    assert {name: found[name] for name in values} == values


def test_an_algorithm_from_elsewhere_is_refused_where_it_cannot_act(add):
    add({"sarsa": entry(config_class="SarsaOptions")})
    with pytest.raises(UsageError, match=r"--agent=sarsa needs one discrete action.* choose one of: a2c"):
        resolve_run(["train", "gym", "sarsa", "--game=Pendulum-v1"])


def test_only_the_registry_names_algorithms_outside_of_their_modules():
    """Besides the default of a launcher, and a column of the paper's tables."""
    package, words = Path(registry.__file__).parents[1], {*registry.choices()}
    own = {package / "algorithms" / f"{name}{end}.py" for name in registry.names() for end in ("", "_config")}
    allowed = {("flags/resolve.py", "vtrace"), ("plotting/run_tables.py", "r2d2")}
    found = {
        (str(path.relative_to(package)), node.value)
        for path in package.rglob("*.py")
        if path not in own and path.name != "registry.py" and path.parent.name != "ops"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in words
    }
    assert found == allowed
