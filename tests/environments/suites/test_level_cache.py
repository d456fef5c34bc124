"""The cache of compiled levels: misses, hits, many at a time, and what goes wrong."""

import errno
import logging
import os
import shutil
import sys
import threading
import types
from pathlib import Path

import pytest

from seed_rl.environments.suites import level_cache
from seed_rl.environments.suites.level_cache import open_level_cache
from tests.threads import Thread
from tests.waiting import DEADLINE_SECS

KEY = "contributed/dmlab30/rooms_watermaze: map 1?seed=../7"


class Store:
    """Stands in for an fsspec file system: objects by path; `refuse` makes all calls fail."""

    def __init__(self):
        self.objects, self.made, self.seen, self.refuse = {}, [], [], None

    def _check(self):
        if self.refuse is not None:
            raise self.refuse

    def get_file(self, path, local):
        self._check()
        if path not in self.objects:
            Path(local).touch()  # As some stores do.
            raise FileNotFoundError(path)
        Path(local).write_bytes(self.objects[path])

    def put_file(self, local, path):
        self._check()
        self.objects[path] = Path(local).read_bytes()
        self.seen.append(path)

    def mv(self, source, target):
        self._check()
        self.objects[target] = self.objects.pop(source)

    def rm_file(self, path):
        del self.objects[path]

    def makedirs(self, path, exist_ok=False):
        assert exist_ok
        self.made.append(path)


@pytest.fixture
def store(monkeypatch):
    """A store behind bucket://, and nothing behind any other URL."""
    found = Store()

    def url_to_fs(url):
        protocol, _, path = url.partition("://")
        if protocol == "gs":
            raise ImportError("Please install gcsfs to access Google Storage")
        if protocol != "bucket":
            raise ValueError(f"Protocol not known: {protocol}")
        return found, path

    module = types.ModuleType("fsspec")
    module.core = types.SimpleNamespace(url_to_fs=url_to_fs)
    monkeypatch.setitem(sys.modules, "fsspec", module)
    return found


@pytest.fixture(params=["local", "remote"])
def cache(request, tmp_path, store):
    return open_level_cache(str(tmp_path / "cache") if request.param == "local" else "bucket://levels/lab/")


@pytest.fixture
def level(tmp_path):
    path = tmp_path / "compiled.pk3"
    path.write_bytes(b"level" * 1000)
    return path


def files(directory):
    return [path for path in Path(directory).rglob("*") if path.is_file()]


def test_a_level_is_missed_then_written_then_found(cache, level, tmp_path):
    target = tmp_path / "engine" / "level.pk3"
    target.parent.mkdir()
    assert cache.fetch(KEY, str(target)) is False
    assert files(target.parent) == []
    assert cache.write(KEY, str(level)) is None
    assert cache.fetch(KEY, str(target)) is True
    assert target.read_bytes() == level.read_bytes()
    assert files(target.parent) == [target]
    assert level.exists()


def test_keys_do_not_get_mixed_up(cache, tmp_path):
    """Not even by file systems that ignore letter case, or through the parts of a path."""
    keys = ["a", "A", "a/b", "a_b", "..", "", "long " * 200, "ä", "a b", "a\\b"]
    for number, key in enumerate(keys):
        source = tmp_path / "source"
        source.write_bytes(bytes([number]))
        cache.write(key, str(source))
    for number, key in enumerate(keys):
        assert cache.fetch(key, str(tmp_path / "target"))
        assert (tmp_path / "target").read_bytes() == bytes([number])


def test_what_was_at_the_engines_path_is_kept_on_a_miss(cache, level):
    before = level.read_bytes()
    assert not cache.fetch("another key", str(level))
    assert level.read_bytes() == before


def test_nobody_sees_a_level_that_is_being_written(tmp_path, level, monkeypatch):
    cache = open_level_cache(str(tmp_path / "cache"))
    half, finish, copyfile = threading.Event(), threading.Event(), shutil.copyfile

    def slow_copy(source, target):
        if threading.current_thread() is threading.main_thread():
            return copyfile(source, target)
        Path(target).write_bytes(b"half")
        half.set()
        assert finish.wait(DEADLINE_SECS)
        return copyfile(source, target)

    monkeypatch.setattr(level_cache.shutil, "copyfile", slow_copy)
    writer = Thread(cache.write, KEY, str(level))
    assert half.wait(DEADLINE_SECS)
    assert not cache.fetch(KEY, str(tmp_path / "target"))
    finish.set()
    assert writer.finished() and writer.error is None
    assert cache.fetch(KEY, str(tmp_path / "target"))
    assert (tmp_path / "target").read_bytes() == level.read_bytes()


def test_remote_levels_are_uploaded_under_another_name(store, level):
    cache = open_level_cache("bucket://levels/lab")
    for _ in range(2):
        cache.write(KEY, str(level))
    assert store.made == ["levels/lab"]
    (name,) = store.objects
    assert name.startswith("levels/lab/") and name.endswith(".pk3")
    assert len(set(store.seen)) == 2
    assert all(seen.startswith(name) and seen != name for seen in store.seen)


def _break_copies(monkeypatch, error):
    def fail(source, target):
        Path(target).write_bytes(b"half")
        raise error

    monkeypatch.setattr(level_cache.shutil, "copyfile", fail)


def test_a_full_disk_costs_a_message_and_not_the_actor(tmp_path, level, monkeypatch, caplog):
    cache = open_level_cache(str(tmp_path / "cache"))
    _break_copies(monkeypatch, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            cache.write(KEY, str(level))
    assert [record.message.count("No space left on device") for record in caplog.records] == [1]
    assert "cannot be written" in caplog.text
    assert files(tmp_path / "cache") == []
    monkeypatch.undo()
    cache.write(KEY, str(level))
    assert cache.fetch(KEY, str(tmp_path / "target"))


def test_an_unreadable_level_is_a_miss(tmp_path, level, monkeypatch, caplog):
    cache = open_level_cache(str(tmp_path / "cache"))
    cache.write(KEY, str(level))
    _break_copies(monkeypatch, OSError(errno.EIO, os.strerror(errno.EIO)))
    target = tmp_path / "engine" / "target"
    target.parent.mkdir()
    with caplog.at_level(logging.WARNING):
        assert not cache.fetch(KEY, str(target))
        assert not cache.fetch(KEY, str(target))
    assert caplog.text.count("cannot be read") == 1
    assert files(target.parent) == []


def test_a_store_that_fails_in_its_own_way_is_a_miss(store, level, tmp_path, caplog):
    cache = open_level_cache("bucket://levels")
    cache.write(KEY, str(level))
    store.refuse = type("TokenExpiredError", (Exception,), {})("log in again")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert not cache.fetch(KEY, str(tmp_path / "target"))
            cache.write(KEY, str(level))
    assert [record.message.count("TokenExpiredError: log in again") for record in caplog.records] == [1, 1]
    assert len(store.objects) == 1
    assert not (tmp_path / "target").exists()


def test_what_cannot_be_a_directory_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        ValueError, match=r"^--level_cache=.*/file cannot be created \(File exists\); choose a .*\.$"
    ):
        open_level_cache(str(tmp_path / "file"))
    with pytest.raises(ValueError, match=r"file/cache cannot be created \(Not a directory\)"):
        open_level_cache(str(tmp_path / "file" / "cache"))


def test_urls_say_what_to_install(monkeypatch, store):
    with pytest.raises(
        ImportError, match=r"--level_cache=gs://b/c .*install gcsfs .*pip install fsspec gcsfs\.$"
    ):
        open_level_cache("gs://b/c")
    with pytest.raises(
        ValueError, match=r"^--level_cache=socks://b is not valid \(Protocol not known: socks\)"
    ):
        open_level_cache("socks://b")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ImportError, match=r"^--level_cache=gs://b/c is a URL, which needs fsspec.*\.$"):
        open_level_cache("gs://b/c")
