import re

import pytest

from seed_rl.flags import flagfile
from seed_rl.flags.errors import UsageError
from seed_rl.flags.flagfile import configs_directory, expand_flagfiles, find_config, in_parts, without


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_lines_take_the_place_of_the_flag(tmp_path):
    path, lines = tmp_path / "a.flags", ["--b=1", "--c=2", "--noloud"]
    path.write_text("# a comment\n\n--b=1\n  --c=2  \n// another\n--noloud\n")
    assert expand_flagfiles(["--a=0", f"--flagfile={path}", "--d"]) == ["--a=0", *lines, "--d"]
    assert expand_flagfiles(["--flagfile", str(path), "x"]) == [*lines, "x"]
    assert expand_flagfiles(["--", "--flagfile=none"]) == ["--", "--flagfile=none"]


def test_included_files_are_found_beside_the_including_one(tmp_path, monkeypatch):
    write(tmp_path / "configs" / "base.flags", "--b=1\n--a=base")
    top = write(tmp_path / "configs" / "small" / "top.flags", "--flagfile=../base.flags\n--a=top")
    write(tmp_path / "elsewhere" / "x", "")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert expand_flagfiles([f"--flagfile={top}"]) == ["--b=1", "--a=base", "--a=top"]


def test_lines_for_others_are_passed_over_in_files_only(tmp_path):
    path = write(tmp_path / "a.flags", "--a=1\n--noquiet\n--quiet\n--b=2\n--nothing=3")
    parts = in_parts(["--a=0", f"--flagfile={path}", "--b=4"])
    parts = [(source, without(lines, {"a", "quiet"}) if source else lines) for source, lines in parts]
    assert parts == [("", ["--a=0"]), (str(path), ["--b=2", "--nothing=3"]), ("", ["--b=4"])]


@pytest.fixture
def wrong(tmp_path):
    """A directory of files that cannot be read."""
    chain = {f"chain_{number}": f"--flagfile=chain_{number + 1}.flags".encode() for number in range(100)}
    odd = {
        "zero": b"--flagfile=a\0b",
        "latin": b"--a=\xff\xff",
        "short": b"\xff\xfe-",
        "odd": b"\xff\xfe\x00\xd8",
    }
    others = {"circle": b"--flagfile=other.flags", "other": b"--flagfile=circle.flags", "bad": b"--a=1\nb=2"}
    for name, content in (chain | odd | others).items():
        (tmp_path / f"{name}.flags").write_bytes(content)
    (tmp_path / "loop.flags").symlink_to(tmp_path / "loop.flags")
    return tmp_path


NO_TEXT = r"cannot be read \(not a text file\)"


@pytest.mark.parametrize(
    ("arg", "sentence"),
    [
        ("={}/loop.flags", r"loop\.flags cannot be read"),
        ("={}/zero.flags", r"cannot be read"),
        ("={}", r"cannot be read \(Is a directory\)"),
        (f"={{}}/{'x' * 300}", r"cannot be read \(File name too long\)"),
        ("=~nobody-has-this-name/x", r"cannot be read \(No such file or directory\)"),
        ("={}/none.flags", r"none\.flags cannot be read \(No such file or directory\)"),
        *((f"={{}}/{name}.flags", NO_TEXT) for name in ("latin", "short", "odd")),
        ("={}/chain_0.flags", r"is included by more than 50 others"),
        ("={}/circle.flags", "circle.flags includes itself"),
        ("={}/bad.flags", r"Line 2 of the flagfile .*bad\.flags is not a flag: 'b=2'"),
        ("", "--flagfile needs a path"),
        ("=", "--flagfile needs a path"),
    ],
)
def test_errors_are_sentences(wrong, arg, sentence):
    with pytest.raises(UsageError, match=sentence):
        expand_flagfiles([f"--flagfile{arg.format(wrong)}"])


ENCODINGS = {
    "Unix": ("", "\n", "utf-8"),
    "Windows": ("", "\r\n", "utf-8"),
    "Windows, with a mark": ("", "\r\n", "utf-8-sig"),
    "old Mac": ("", "\r", "utf-8"),
    "UTF-16": ("", "\r\n", "utf-16"),
    "UTF-16, the other byte order": ("\ufeff", "\r\n", "utf-16-be"),
}


@pytest.mark.parametrize(("mark", "end", "encoding"), ENCODINGS.values(), ids=ENCODINGS)
def test_files_of_other_editors_are_read(tmp_path, mark, end, encoding):
    path = tmp_path / "a.flags"
    path.write_bytes((mark + end.join(["--a=1", "# é", "--b=ü", ""])).encode(encoding))
    assert expand_flagfiles([f"--flagfile={path}"]) == ["--a=1", "--b=ü"]


FLAGFILES, SPACES = "**/*.flags", "sweeps/*.yaml"


def test_they_are_inside_the_package_or_beside_it(monkeypatch, tmp_path):
    monkeypatch.setattr(flagfile.seed_rl, "__file__", str(tmp_path / "seed_rl" / "__init__.py"))
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
        ("small/catch_vtrace.flags", FLAGFILES, configs_directory() / "small/catch_vtrace.flags"),
        ("configs/small/catch_vtrace.flags", FLAGFILES, configs_directory() / "small/catch_vtrace.flags"),
        ("configs/sweeps/catch.yaml", SPACES, configs_directory() / "sweeps/catch.yaml"),
        ("configs/small/catch_ppo.flags", FLAGFILES, configs_directory() / "small/catch_ppo.flags"),
        # All else is the user's own.
        *((path, FLAGFILES, path) for path in ("small/catch_ppo.flags", "small", "no/at_all.flags")),
        *((path, FLAGFILES, path or ".") for path in ("", "x" * 300, "a\0b")),
    ],
)
def test_the_files_of_the_project_are_found_in_any_directory(elsewhere, path, kind, found):
    assert str(find_config(path, kind)) == str(found)


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
