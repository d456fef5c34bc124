"""The cache of compiled levels: misses, hits, many at a time, and what goes wrong."""

import errno
import functools
import logging
import sys
import types
from pathlib import Path

import pytest

from seed_rl.environments.suites.dmlab import LevelCache
from tests.environments.odd import raises

KEY = "contributed/dmlab30/rooms_watermaze: map 1?seed=../7"


class Store:
    """Stands in for an fsspec file system: objects by path."""

    def __init__(self):
        self.objects = {}

    def get_file(self, path, local):
        if path not in self.objects:
            Path(local).touch()  # As some stores do.
            raise FileNotFoundError(path)
        Path(local).write_bytes(self.objects[path])

    def put_file(self, local, path):
        self.objects[path] = Path(local).read_bytes()

    def mv(self, source, target):
        self.objects[target] = self.objects.pop(source)

    def rm_file(self, path):
        del self.objects[path]

    def makedirs(self, path, exist_ok=False):
        assert exist_ok and path == "levels/lab"


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
    return LevelCache(str(tmp_path / "cache") if request.param == "local" else "bucket://levels/lab/")


@pytest.fixture
def level(tmp_path):
    path = tmp_path / "compiled.pk3"
    path.write_bytes(b"level" * 1000)
    return path


def test_a_level_is_missed_then_written_then_found(cache, level, tmp_path):
    target = tmp_path / "engine" / "level.pk3"
    target.parent.mkdir()
    assert cache.fetch(KEY, str(target)) is False
    assert list(target.parent.iterdir()) == []
    target.write_text("kept on a miss")
    assert cache.fetch(KEY, str(target)) is False and target.read_text() == "kept on a miss"
    assert cache.write(KEY, str(level)) is None
    assert cache.fetch(KEY, str(target)) is True
    assert target.read_bytes() == level.read_bytes()
    assert list(target.parent.iterdir()) == [target]


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


def after_copies(monkeypatch, cache, then):
    """Does something else after each copy from or to the cache's files."""

    def copy_and_more(copy, source, target):
        copy(source, target)
        then()

    for name in ("get_file", "put_file"):
        copy = getattr(cache._files, name)
        monkeypatch.setattr(cache._files, name, functools.partial(copy_and_more, copy))


def test_nobody_sees_a_level_that_is_being_written(cache, level, tmp_path, monkeypatch):
    found = []
    with monkeypatch.context() as patch:
        after_copies(patch, cache, lambda: found.append(cache.fetch(KEY, str(tmp_path / "target"))))
        cache.write(KEY, str(level))
    assert found == [False]
    assert cache.fetch(KEY, str(tmp_path / "target"))


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left"), type("TokenExpiredError", (Exception,), {})("log in again")],
)
def test_what_fails_costs_a_message(cache, store, level, tmp_path, monkeypatch, caplog, error):
    cache.write(KEY, str(level))
    target = tmp_path / "engine" / "target"
    target.parent.mkdir()
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        after_copies(patch, cache, functools.partial(raises(error), None))
        for _ in range(3):
            assert not cache.fetch(KEY, str(target))
            cache.write("another", str(level))
    messages = [record.getMessage() for record in caplog.records]
    for message, words in zip(messages, ("cannot be read", "cannot be written"), strict=True):
        assert words in message and f"({type(error).__name__}: {error})" in message
    assert list(target.parent.iterdir()) == []
    assert len(store.objects) + len(list((tmp_path / "cache").glob("*"))) == 1
    cache.write("another", str(level))
    assert cache.fetch("another", str(target))


@pytest.mark.parametrize(
    ("location", "error", "sentence"),
    [
        ("file", ValueError, r"^--level_cache=file cannot be created \(File exists\); choose a .*\.$"),
        ("file/cache", ValueError, r"file/cache cannot be created \(Not a directory\)"),
        ("socks://b", ValueError, r"^--level_cache=socks://b is not valid \(Protocol not known: socks\)"),
        ("gs://b/c", ImportError, r"--level_cache=gs://b/c .*install gcsfs .*pip install fsspec gcsfs\.$"),
        (None, ImportError, r"^--level_cache=gs://b/c is a URL, which needs fsspec.*\.$"),
    ],
)
def test_what_cannot_be_a_cache_is_refused(tmp_path, monkeypatch, store, location, error, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    if location is None:
        monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(error, match=sentence):
        LevelCache(location or "gs://b/c")
