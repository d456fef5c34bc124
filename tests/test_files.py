import errno
import os

import pytest

from seed_rl.files import append_line, parse_json, replacing, set_aside, write_atomically


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
