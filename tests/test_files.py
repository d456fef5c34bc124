import errno
import os

import pytest

from seed_rl.files import append_line, parse_json, read_mapping, replacing, set_aside, write_atomically


def names(directory):
    return sorted(os.listdir(directory))


def test_a_file_is_replaced_once_it_is_complete(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, "first\n")
    with replacing(path) as file:
        file.write(b"second\n")
        assert path.read_text() == "first\n"
    assert path.read_text() == "second\n"
    assert names(tmp_path) == ["file"]


def test_a_failure_leaves_the_old_file_and_no_temporary_one(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, "precious")
    with pytest.raises(OSError, match="full"), replacing(path) as file:
        file.write(b"half of the")
        raise OSError(errno.ENOSPC, "the disk is full")
    assert path.read_text() == "precious"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, "new\n"), ("", "new\n"), ("old\n", "old\nnew\n"), ("old", "old\nnew\n"), ("\n", "\nnew\n")],
)
def test_a_line_begins_on_a_line_of_its_own(tmp_path, before, after):
    path = tmp_path / "file"
    if before is not None:
        path.write_text(before)
    append_line(path, "new")
    assert path.read_text() == after


def test_a_full_disk_is_an_error(tmp_path):
    os.symlink("/dev/full", tmp_path / "file")
    with pytest.raises(OSError) as caught:
        append_line(tmp_path / "file", "new")
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("left", ["file", "link"])
def test_a_temporary_file_that_was_left_is_replaced(tmp_path, left):
    """Without writing through it, if it is a link."""
    precious, temporary = tmp_path / "precious", tmp_path / "file.tmp"
    precious.write_text("precious")
    temporary.write_text("left") if left == "file" else temporary.symlink_to(precious)
    write_atomically(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "new"
    assert precious.read_text() == "precious"
    assert names(tmp_path) == ["file", "precious"]


def test_what_is_set_aside_replaces_nothing(tmp_path):
    for content in "abc":
        (tmp_path / "file").write_text(content)
        assert set_aside(tmp_path / "file").read_text() == content
    assert names(tmp_path) == ["file.damaged", "file.damaged2", "file.damaged3"]


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a":' * 100_000, b"\xff\xfe\xfd", "1" * 10_000])
def test_what_is_not_json_is_a_value_error(text):
    with pytest.raises(ValueError):
        parse_json(text)


# YAML that somebody may have written by mistake, or to do harm: it breaks programs that trust it.
ODD = {
    "missing": (None, "cannot be read (No such file"),
    "open": ("a: [1\nb: 2", "is not valid YAML (line 2: "),
    "binary": (b"\xff\xfe\xfa", "is not valid YAML (it is not a text file)"),
    "list": ("- a\n- b\n", "is not a YAML mapping"),
    "nothing": ("", "is not a YAML mapping"),
    "deep list": ("[" * 3000, "too deeply"),
    "deep mapping": ("{a: " * 3000, "too deeply"),
    "deep blocks": ("".join(f"{' ' * n}a:\n" for n in range(600)), "too deeply"),
    "billion laughs": (
        "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40)),
        "too many",
    ),
    "endless": ("&a [*a]", "too deeply"),
    "endless mapping": ("environment: &a {a: *a}\n", "too deeply"),
    "huge number": (f"environment: {10**400}\n", ""),
    "no date": ("environment: 2020-13-45\n", ""),
    "no number": ("environment: !!int x\n", ""),
    "no time": ("environment: !!timestamp x\n", ""),
    "code": ("environment: !!python/object/apply:os.system [true]\n", ""),
    "key": ("? [a]\n: b\n", ""),
    "control": ('environment: "\x01"\n', ""),
    "zeros": ("\0" * 100, ""),
    "tab": ("a:\n\t- b\n", ""),
}


@pytest.mark.parametrize("odd", ODD)
def test_a_mapping_that_cannot_be_read_is_one_sentence(tmp_path, odd):
    (content, words), path = ODD[odd], tmp_path / "job.yaml"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=rf"^--config={path} ") as caught:
        read_mapping("config", path)
    assert words in str(caught.value) and len(str(caught.value)) < 500 and "\n" not in str(caught.value)
