"""flock's locks belong to an open file, so most can be tested within one process."""

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from seed_rl.runs import lock
from tests.waiting import wait_until

DEADLINE_SECS = 60.0
HOLD = """
import subprocess, sys
from seed_rl.runs import lock
with lock.held(sys.argv[1]):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    print(child.pid, flush=True)
    input()
"""


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(lock, "_SAME_HOST_SECS", 0.2)
    monkeypatch.setattr(lock, "_OTHER_HOST_SECS", 0.2)
    monkeypatch.setattr(lock, "_SILENT_SECS", 0.0)


@pytest.fixture
def holder(tmp_path):
    """A process that holds tmp_path/run, and whose child waits for its end of input."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path / "run"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    process.child = int(process.stdout.readline())
    yield process
    for pid in (process.pid, process.child):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=DEADLINE_SECS)


def refused(logdir):
    """The sentence that both a learner and a launcher are refused with."""
    with pytest.raises(ValueError) as caught, lock.held(logdir):
        pass
    with pytest.raises(ValueError) as of_launcher:
        lock.check_free(logdir)
    assert str(of_launcher.value) == str(caught.value)
    return str(caught.value)


def test_the_refusal_names_the_holder_until_it_is_killed_though_a_child_of_it_lives(
    tmp_path, holder, impatient
):
    logdir, name = tmp_path / "run", f"process {holder.pid} on host {socket.gethostname()}"
    words = f"The run directory {logdir} is in use by {name}; stop it, or choose another --logdir."
    assert (refused(logdir), lock.holder(logdir), lock.holder(tmp_path)) == (words, name, None)
    holder.kill()
    wait_until(lambda: lock.holder(logdir) is None, "the kernel to release the lock")
    assert (logdir / "learner.lock").exists()
    lock.check_free(logdir)
    with lock.held(logdir):
        os.kill(holder.child, 0)


def test_a_process_that_is_ending_is_waited_for(tmp_path):
    """The second gets the lock although the first removes the file that it waits at; a third is refused."""
    logdir, taken, checked = tmp_path / "run", threading.Event(), threading.Event()

    def hold():
        with lock.held(logdir):
            taken.set()
            checked.wait(DEADLINE_SECS)

    with lock.held(logdir):
        (logdir / "run.json").touch()
        second = threading.Thread(target=hold)
        second.start()
        assert not taken.wait(0.3)
    assert taken.wait(DEADLINE_SECS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lock, "_SAME_HOST_SECS", 0.2)
        assert f"process {os.getpid()} on host" in refused(logdir)
    checked.set()
    second.join(DEADLINE_SECS)
    assert os.listdir(logdir) == ["run.json"]


def test_a_directory_that_was_made_for_nothing_is_removed(tmp_path):
    with lock.held(tmp_path / "runs" / "new"):
        assert os.listdir(tmp_path / "runs" / "new") == ["learner.lock"]
    assert not (tmp_path / "runs").exists()
    with lock.held(tmp_path):
        pass
    assert os.listdir(tmp_path) == []
    lock.check_free(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    ("content", "name", "is_lost"),
    [
        (b"process 7 on host elsewhere\n", "process 7 on host elsewhere", True),
        (b"", "another process", False),
        (b"\n", "another process", False),
        (b"1 host\x1b[31m\n2", r"1 host\x1b[31m\n2", False),
    ],
)
def test_a_host_that_may_be_lost_is_waited_for_with_a_word(
    tmp_path, impatient, monkeypatch, capsys, content, name, is_lost
):
    why = "its host is lost" if is_lost else "that is ending"
    with lock.held(tmp_path):
        (tmp_path / "learner.lock").write_bytes(content)
        assert f" is in use by {name}; stop it" in refused(tmp_path)
        of_both = capsys.readouterr().err.splitlines()
        words = f"is in use by {name}; waiting up to 0.2 s in case {why}."
        assert len(of_both) == 2 and all(said.endswith(words) for said in of_both)
        # A signal ends the wait.
        monkeypatch.setattr(lock, "_OTHER_HOST_SECS", 10 * DEADLINE_SECS)
        monkeypatch.setattr(lock, "_SAME_HOST_SECS", 10 * DEADLINE_SECS)
        start = time.monotonic()
        with pytest.raises(ValueError, match="in use"), lock.held(tmp_path, stopping=lambda: True):
            pass
        assert time.monotonic() - start < DEADLINE_SECS


def test_without_locks_it_goes_on_with_a_warning(tmp_path, monkeypatch, capsys):
    def flock(handle, kind):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(lock.fcntl, "flock", flock)
    lock.check_free(tmp_path)
    with lock.held(tmp_path):
        pass
    (said,) = capsys.readouterr().err.splitlines()
    assert "does not support locks (Operation not supported); make sure that no other learner" in said


def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    words = r"--logdir=.*file/run cannot be written \(Not a directory\)"
    with pytest.raises(ValueError, match=words), lock.held(tmp_path / "file" / "run"):
        pass


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path):
    """The user who made the directory could otherwise have any file of ours overwritten."""
    precious, link = tmp_path / "precious", tmp_path / "run" / "learner.lock"
    precious.write_text("precious")
    link.parent.mkdir()
    link.symlink_to(precious)
    words = r"learner.lock is a symbolic link, which is not followed; remove it"
    with pytest.raises(ValueError, match=words), lock.held(link.parent):
        pass
    lock.check_free(link.parent)
    assert lock.holder(link.parent) is None
    assert precious.read_text() == "precious" and link.is_symlink()
