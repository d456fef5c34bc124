import re

import pytest

from seed_rl.flags import configs
from seed_rl.flags.configs import configs_directory, find_config
from seed_rl.flags.errors import UsageError

FLAGFILES, SPACES = "**/*.flags", "sweeps/*.yaml"


def test_they_are_inside_the_package_or_beside_it(monkeypatch, tmp_path):
    monkeypatch.setattr(configs.seed_rl, "__file__", str(tmp_path / "seed_rl" / "__init__.py"))
    assert configs_directory() == tmp_path / "configs"
    (tmp_path / "seed_rl" / "configs").mkdir(parents=True)
    assert configs_directory() == tmp_path / "seed_rl" / "configs"


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """A directory without a clone, with a file of the user's."""
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "catch_ppo.flags").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "kind", "found"),
    [
        ("small/catch_vtrace.flags", FLAGFILES, "small/catch_vtrace.flags"),
        ("configs/small/catch_vtrace.flags", FLAGFILES, "small/catch_vtrace.flags"),
        ("configs/sweeps/catch.yaml", SPACES, "sweeps/catch.yaml"),
        ("configs/small/catch_ppo.flags", FLAGFILES, "small/catch_ppo.flags"),
    ],
)
def test_the_files_of_the_project_are_found_in_any_directory(elsewhere, path, kind, found):
    assert find_config(path, kind) == configs_directory() / found


@pytest.mark.parametrize(
    "path", ["small/catch_ppo.flags", "small", "nothing/at_all.flags", "", "x" * 300, "a\0b"]
)
def test_all_else_is_the_users_own(elsewhere, path):
    assert str(find_config(path, FLAGFILES)) == (path or ".")


@pytest.mark.parametrize(
    ("path", "kind", "meant"),
    [
        ("catch_vtrace", FLAGFILES, "small/catch_vtrace.flags"),
        ("configs/catch_vtrace.flags", FLAGFILES, "small/catch_vtrace.flags"),
        ("/old/configs/atari_r2d2.flags", FLAGFILES, "paper/seed/atari_r2d2.flags"),
        ("atari_vtrace.flags", FLAGFILES, "paper/seed/atari_vtrace.flags or small/atari_vtrace.flags"),
        ("catch", SPACES, "sweeps/catch.yaml"),
    ],
)
def test_a_name_in_another_directory_is_named(elsewhere, path, kind, meant):
    with pytest.raises(UsageError, match=re.escape(f"There is no file {path}; did you mean {meant}?")):
        find_config(path, kind)
