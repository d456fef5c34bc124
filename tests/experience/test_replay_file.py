"""Damage to a replay's file is detected: no wrong contents are ever loaded, whatever happens to its bytes."""

import json
import struct
import zlib

import numpy as np
import pytest

from seed_rl.experience.replay_file import DamagedError
from tests.experience import slow_transitions
from tests.experience.slow_store import Streams
from tests.experience.test_replay import filled
from tests.experience.test_replay import make as make_unrolls
from tests.selection import mostly_slow

MAGIC = b"seed_rl replay 3\n"


def save_unrolls(path, is_kept=True):
    filled(make_unrolls(checkpoint_replay=is_kept), Streams(2, 4, 2).unrolls(0, 4)).save(path)


def restore_unrolls(path, is_kept=True):
    replay = make_unrolls(checkpoint_replay=is_kept)
    replay.restore(path)
    return replay


def save_transitions(path, is_kept=True, exponent=0.5):
    replay, streams = slow_transitions.make(checkpoint_replay=is_kept, priority_exponent=exponent)
    streams.play(12)
    replay.save(path)


def restore_transitions(path, is_kept=True):
    return slow_transitions.make(checkpoint_replay=is_kept, path=path)[0]


SAVE = {"unrolls": save_unrolls, "transitions": save_transitions}
RESTORE = {"unrolls": restore_unrolls, "transitions": restore_transitions}


@pytest.fixture(params=list(SAVE))
def kind(request):
    return request.param


@pytest.fixture
def whole(kind, tmp_path):
    """The bytes of a file."""
    path = tmp_path / "whole"
    SAVE[kind](str(path))
    return path.read_bytes()


def restored(kind, tmp_path, content):
    path = tmp_path / "replay.bin"
    path.write_bytes(content)
    return RESTORE[kind](str(path))


def sections(whole):
    """The contents of all sections, read by the documented format alone."""
    found, at = [], len(MAGIC)
    assert whole.startswith(MAGIC)
    while at < len(whole):
        (length,) = struct.unpack_from("<Q", whole, at)
        found.append(whole[at + 8 : at + 8 + length])
        assert struct.unpack_from("<I", whole, at + 8 + length) == (zlib.crc32(found[-1]),)
        at += length + 12
    return found


def joined(contents):
    """A file of sections with right checksums."""
    return MAGIC + b"".join(
        struct.pack("<Q", len(section)) + section + struct.pack("<I", zlib.crc32(section))
        for section in contents
    )


def test_a_whole_file_is_loaded(kind, whole, tmp_path):
    assert joined(sections(whole)) == whole
    assert len(restored(kind, tmp_path, whole)) > 0


def test_a_replay_is_saved_only_when_asked_for(kind, tmp_path):
    path = str(tmp_path / "replay.bin")
    SAVE[kind](path, is_kept=False)
    empty = RESTORE[kind](path)  # Nothing to restore,
    empty.save(path)  # nor to save.
    assert len(empty) == 0 and list(tmp_path.iterdir()) == []
    SAVE[kind](path)
    assert len(RESTORE[kind](path, is_kept=False)) == 0


def test_no_byte_can_be_wrong(kind, whole, tmp_path):
    random = np.random.default_rng(0)
    places = {
        *range(80),
        *range(len(whole) - 20, len(whole)),
        *random.integers(len(whole), size=300).tolist(),
    }
    for place in sorted(places):
        content = bytearray(whole)
        content[place] ^= 1 << int(random.integers(8))
        with pytest.raises(DamagedError):
            restored(kind, tmp_path, bytes(content))


def test_no_byte_can_be_missing_or_too_many(kind, whole, tmp_path):
    for size in {*range(40), *range(40, len(whole), 97), len(whole) - 1}:
        with pytest.raises(DamagedError):
            restored(kind, tmp_path, whole[:size])
    with pytest.raises(DamagedError, match="too many"):
        restored(kind, tmp_path, whole + b"\0")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"seed_rl replay 1\n{}", "another version"),
        (b"seed_rl replay 2\n", "another version"),
        (b"seed_rl transitions 1\n{}", "another version"),
        (MAGIC + struct.pack("<Q", 2**64 - 1), "ends too early"),
        (MAGIC + struct.pack("<Q", 2**40) + b"x" * 100, "ends too early"),
        (joined([b"\xff"]), "not JSON"),
        (joined([b"[" * 100_000]), "nested too deeply"),
        (joined([b"[]"]), "makes? no sense"),
        (joined([b"{}"]), "makes? no sense"),
        (joined([b'{"kind": "other"}']), "is not a replay of"),
        (bytes(1000), "does not begin"),
    ],
    ids=range(11),
)
def test_what_is_no_replay_of_this_version_is_not_loaded(kind, tmp_path, content, reason):
    with pytest.raises(DamagedError, match=reason):
        restored(kind, tmp_path, content)


WRONG = [
    *[("unrolls", key, bad) for key in ("unrolls", "blobs") for bad in (-1, 10**15, "4", 4.0, None)],
    ("unrolls", "settings", 5),
    *[("transitions", "num_envs", bad) for bad in (-1, 0, 4, 10**6, "3", 3.0, True)],
    *[("transitions", "num_served", bad) for bad in (0, 4, None)],
    *[("transitions", "highest_priority", bad) for bad in (float("nan"), float("inf"), "1")],
    *[("transitions", "cut", bad) for bad in (None, [], {"transitions": -1})],
    *[("transitions", "leaves", bad) for bad in ([[[2], "O"]], [[[2], "u1,u1"]], [[[-2], "<f4"]], [[2]], 3)],
    ("transitions", "leaves", [[[10**12], "<f4"]]),
    ("transitions", "more", 1),
]


@pytest.mark.parametrize(("kind", "key", "bad"), mostly_slow(WRONG, WRONG[::4]))
def test_no_odd_value_in_a_header_is_a_crash(kind, key, bad, whole, tmp_path):
    """With a right checksum, too. Nothing is allocated for what a header claims."""
    header, *rest = sections(whole)
    header = json.dumps(json.loads(header) | {key: bad}).encode()
    with pytest.raises(ValueError):  # Or settings that are not this run's.
        restored(kind, tmp_path, joined([header, *rest]))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize("exponent", [0.0, 0.5])
def test_odd_priorities_are_not_loaded(tmp_path, bad, exponent):
    path = str(tmp_path / "replay.bin")
    for save, restore, place in (
        (save_unrolls, restore_unrolls, 1),
        (lambda path: save_transitions(path, exponent=exponent), restore_transitions, 2),
    ):
        save(path)
        with open(path, "rb") as file:
            contents = sections(file.read())
        priorities = np.frombuffer(contents[place], np.float64).copy()
        priorities[0] = bad
        contents[place] = priorities.tobytes()
        with open(path, "wb") as file:
            file.write(joined(contents))
        with pytest.raises(DamagedError, match="priority"):
            restore(path)


def test_what_cannot_be_opened_is_refused(kind, tmp_path):
    (tmp_path / "replay.bin").mkdir()
    with pytest.raises(ValueError, match=r"replay.bin cannot be read .*; move it away"):
        RESTORE[kind](str(tmp_path / "replay.bin"))


@pytest.mark.parametrize("size", [2**31, 10**12, 10**30])
@pytest.mark.parametrize("exponent", [0.0, 0.5])
def test_a_replay_beyond_its_memory_is_refused_before_it_is_allocated(size, exponent):
    settings = {"replay_buffer_size": size, "replay_max_bytes": 2**27}
    with pytest.raises(ValueError, match=rf"--replay_buffer_size={size} take .*; lower it, or raise"):
        make_unrolls(**settings)
    with pytest.raises(ValueError, match=rf"--replay_buffer_size={size} take .*; lower it, or raise"):
        slow_transitions.make(priority_exponent=exponent, **settings)
