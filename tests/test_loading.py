"""Names into what they stand for, with one sentence where that cannot be."""

import subprocess
import sys

import pytest

from seed_rl import loading


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """A module of somebody else's on the path."""
    (tmp_path / "theirs_found.py").write_text("THING = [1, 2]\n")
    (tmp_path / "theirs_broken.py").write_text("import a_module_that_nobody_has\n")
    (tmp_path / "theirs_failing.py").write_text("raise RuntimeError('of its own')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("theirs_found", None)


@pytest.mark.parametrize("enabled", [True, False])
def test_imports_leave_the_garbage_collector_as_it_was(enabled):
    """In a process of its own: what is frozen stays frozen."""
    code = f"""
import gc
from seed_rl.loading import without_garbage_collection
(gc.enable if {enabled} else gc.disable)()
try:
    with without_garbage_collection():
        assert not gc.isenabled()
        kept = [[] for _ in range(10_000)]
        1 / 0
except ZeroDivisionError:
    assert gc.isenabled() == {enabled}
assert gc.get_freeze_count() > 10_000
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_tensorflow_is_imported_without_packages_that_it_does_not_need():
    """In a process of its own; and they are there afterwards."""
    pytest.importorskip("tensorflow", reason="no TensorFlow")
    pytest.importorskip("matplotlib", reason="no matplotlib")
    code = """
import gc, sys
from seed_rl.loading import fast_tensorflow_import
with fast_tensorflow_import():
    assert not gc.isenabled()
    import keras, tensorflow
assert not {"matplotlib", "pandas"} & set(sys.modules)
import matplotlib.pyplot
with fast_tensorflow_import():
    import matplotlib.pyplot
assert "matplotlib" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


BROKEN, OTHER = "theirs_broken:THING", "theirs_found:OTHER"


@pytest.mark.parametrize(
    ("name", "location", "shown", "reason"),
    [
        ("mine", "nowhere:THING", "mine (nowhere:THING)", "No module named 'nowhere'"),
        ("nowhere:THING", "nowhere:THING", "nowhere:THING", "No module named 'nowhere'"),
        ("mine", BROKEN, f"mine ({BROKEN})", "No module named 'a_module_that_nobody_has'"),
        ("mine", OTHER, f"mine ({OTHER})", "module 'theirs_found' has no attribute 'OTHER'"),
    ],
)
def test_the_sentence_names_the_flag_its_value_and_the_reason(theirs, name, location, shown, reason):
    with pytest.raises(ValueError) as caught:
        loading.load_named("thing", name, location)
    assert str(caught.value) == f"--thing={shown} cannot be loaded: {reason}."


def test_an_error_of_the_module_itself_is_its_own(theirs):
    """It is no mistake of the user who set the flag, and its traceback is needed."""
    with pytest.raises(RuntimeError, match="of its own"):
        loading.load_named("thing", "mine", "theirs_failing:THING")
