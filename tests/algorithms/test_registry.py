import subprocess
import sys
import types

import pytest

from seed_rl.algorithms import registry
from seed_rl.algorithms.base import Algorithm
from seed_rl.algorithms.registry import AlgorithmEntry, AlgorithmError
from seed_rl.options import Options
from seed_rl.types import ArraySpec, EnvironmentSpec
from tests.algorithms import incomplete
from tests.installed import install

SPEC = EnvironmentSpec(ArraySpec((3,), "float32"), ArraySpec((), "int32", (0,), (1,)))
INCOMPLETE = "tests.algorithms.incomplete"


def test_names_and_config_classes_import_no_tensorflow():
    code = (
        "import sys\nfrom seed_rl.algorithms import registry\n"
        "for name in registry.names(): registry.config_class(name)()\n"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("name", registry.names())
def test_every_algorithm_is_made_from_its_config_class(name):
    config_class = registry.config_class(name)
    assert issubclass(config_class, Options)
    assert isinstance(registry.make(name, config_class(), SPEC, num_envs=2), Algorithm)


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


def test_an_unknown_name_lists_the_installed_ones(add):
    add({"sarsa": entry()})
    with pytest.raises(
        ValueError, match=r"--agent=salsa is not valid; did you mean sarsa. Choose one of: .*sarsa, vtrace"
    ):
        registry.config_class("salsa")


@pytest.mark.parametrize(
    "call", [registry.config_class, lambda name: registry.make(name, Options(), SPEC, 1)]
)
@pytest.mark.parametrize(
    ("point", "words"),
    [
        ("nowhere:SARSA", "--agent=sarsa (nowhere:SARSA) cannot be loaded: No module named 'nowhere'."),
        ("their_algorithms:GONE", "--agent=sarsa (their_algorithms:GONE) cannot be loaded: module"),
        (
            "their_algorithms:__name__",
            "--agent=sarsa is their_algorithms:__name__, which is not a "
            "seed_rl.algorithms.registry.AlgorithmEntry; change the package's entry point to name one.",
        ),
    ],
)
def test_an_entry_point_that_is_no_algorithm_is_refused_in_words(add, call, point, words):
    add(sarsa=point)
    with pytest.raises(ValueError) as caught:
        call("sarsa")
    assert str(caught.value).startswith(words)


def test_an_entry_whose_parts_cannot_be_loaded_is_refused_in_words(add):
    add({"sarsa": entry(make="gone", config_class="GONE")})
    with pytest.raises(ValueError, match=rf"--agent=sarsa \({INCOMPLETE}:GONE\) cannot be loaded: module"):
        registry.config_class("sarsa")
    with pytest.raises(ValueError, match=rf"--agent=sarsa \({INCOMPLETE}:gone\) cannot be loaded: module"):
        registry.make("sarsa", Options(), SPEC, 1)


@pytest.mark.parametrize("config_class", ["make_complete", "Complete"])
def test_settings_must_be_options(add, config_class):
    add({"sarsa": entry(config_class=config_class)})
    with pytest.raises(ValueError, match=r"sarsa has settings that are not a seed_rl\.options\.Options"):
        registry.config_class("sarsa")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        ("without_losses", AlgorithmError, r"--agent=sarsa is incomplete: .*WithoutLosses.*losses.*\.$"),
        ("nothing", AlgorithmError, r"NoneType is not a seed_rl\.algorithms\.base\.Algorithm"),
        ("with_an_error", TypeError, r"^a mistake of its own$"),
    ],
)
def test_what_is_made_must_be_an_algorithm(add, make, error, words):
    add({"sarsa": entry(f"make_{make}")})
    with pytest.raises(error, match=words):
        registry.make("sarsa", incomplete.Settings(), SPEC, 1)
