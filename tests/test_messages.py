"""Third-party text in messages: escaped, cut, and with the part that has the reason."""

import importlib.metadata
import logging
import sys

import pytest

from seed_rl import messages
from seed_rl.messages import LineFormatter, last_line, one_line, reason, say


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain: ümläute, 道, 'quotes' and a \\", "plain: ümläute, 道, 'quotes' and a \\"),
        ("\n two\nlines \n", "two\\nlines"),
        ("\r\x1b[K\x1b]0;title\x07\x00\x7f", "\\x1b[K\\x1b]0;title\\x07\\x00\\x7f"),
        ("next\x85line\u2028and\u2029more", "next\\x85line\\u2028and\\u2029more"),
        ("right \u202eto left, half a pair \ud800", "right \\u202eto left, half a pair \\ud800"),
        (ValueError("an error\twith a tab"), "an error\\twith a tab"),
        ("", ""),
    ],
)
def test_text_becomes_one_line_without_control_characters(text, line):
    assert one_line(text) == line


@pytest.mark.parametrize(
    "text", ["x" * 101, "begin" + 10**6 * "-" + "end", "\x1b" * 60, "\n" * 30 + "\x00" * 300]
)
def test_the_middle_of_a_long_text_is_left_out(text):
    line = one_line(text, most=100)
    assert len(line) == 100
    assert line.startswith(one_line(text[:5])) and line.endswith(one_line(text)[-5:])
    assert "…" in line and line.isprintable()
    assert one_line("x" * 100, most=100) == "x" * 100


_PREFIX = "{{function_node __wrapped__SaveV2_dtypes_3_device_/job:localhost/replica:0/task:0/device:CPU:0}} "
_PATH = f"/{'long/' * 60}ckpt-1_temp/part-00000-of-00001.data-00000-of-00001.tempstate15547793932511443339"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("", "ValueError"),
        (" \n \n", "ValueError"),
        ("the first line.\nthe second", "the first line"),
        (f"{_PREFIX}a; No space left on device [Op:SaveV2]", "a; No space left on device"),
        (
            "Graph execution error:\n\nDetected at node WriteFile defined at (most recent call last):\n"
            '  File "x.py", line 8, in <module>\n\n  File "x.py", line 7, in f\n\n'
            "a; File name too long\n\t [[{{node WriteFile}}]] [Op:__inference_f_6]",
            "a; File name too long",
        ),
        ("shape [[1, 2]] of {'a': {'b': 1}}", "shape [[1, 2]] of {'a': {'b': 1}}"),
        ("ends the\x1b[2Jscreen", "ends the\\x1b[2Jscreen"),
    ],
)
def test_the_reason_is_what_the_user_needs(message, expected):
    assert reason(ValueError(message)) == expected


def test_long_texts_keep_their_ends_and_control_characters_are_escaped(capsys):
    found = reason(ValueError(f"{_PREFIX}{_PATH}; No space left on device [Op:SaveV2]"))
    assert found.startswith("/long/") and found.endswith("; No space left on device")
    assert len(found) == 200
    assert last_line(b"first\nlast \xff\r\x1b[K\n \n") == "last \ufffd\\r\\x1b[K"
    assert (last_line(b"\n"), len(last_line(b"x" * 65536))) == ("", 500)
    say("next (x\nseed_rl: complete.\r\x1b[2K):", "a\x1b[2Jb\nc")
    assert capsys.readouterr().err == "seed_rl: next (x\\nseed_rl: complete.\\r\\x1b[2K):\n  a\\x1b[2Jb\\nc\n"


def test_a_record_of_a_log_is_one_line_and_keeps_its_traceback():
    try:
        raise ValueError("x\ny")
    except ValueError as error:
        record = logging.LogRecord(
            "", 0, "", 0, "failed: %s", (error,), (type(error), error, error.__traceback__)
        )
    first, *rest = LineFormatter("%(message)s").format(record).split("\n")
    assert first == "failed: x\\ny"
    assert rest[0].startswith("Traceback")


@pytest.fixture
def library():
    """The logger of a library, limited; as it was at the end."""
    loggers = [logging.getLogger(name) for name in ("grpc", "asyncio")]
    before = [(logger.handlers, logger.propagate) for logger in loggers]
    messages.quiet_libraries()
    yield logging.getLogger("grpc._cython.cygrpc")
    for logger, (handlers, propagate) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate


def test_a_library_s_messages_are_counted_by_kind(library, capsys):
    for number in range(1_000):
        library.error("Invalid encoding on %s", f"\x1b{number}\n" * 100)
        library.error("another kind")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 * 4
    assert all(
        line.startswith("seed_rl: warning: grpc._cython.cygrpc: ") and "\x1b" not in line for line in lines
    )
    assert [line.endswith("(1000 times so far)") for line in lines] == [False] * 6 + [True] * 2
    assert max(map(len, lines)) < 400


def test_only_a_bug_of_ours_keeps_its_traceback(library, capsys):
    for _ in range(2):
        try:
            b"\xff".decode()
        except UnicodeDecodeError:
            library.exception("what a peer sent")
    assert len(capsys.readouterr().err.splitlines()) == 1
    for _ in range(2):
        try:
            messages.last_line(None)
        except AttributeError:
            library.exception("what we did wrong")
    lines = capsys.readouterr().err.splitlines()
    assert "AttributeError" in lines[0] and "messages.py" in "".join(lines[1:])
    assert sum("what we did wrong" in line for line in lines) == 1


@pytest.mark.parametrize(("is_installed", "what"), [(True, "'seed_rl[atari]'"), (False, "-e '/")])
def test_the_command_that_installs_an_extra_is_for_this_interpreter(monkeypatch, is_installed, what):
    def find(name):
        if not is_installed:
            raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "distribution", find)
    text = messages.how_to_install("atari")
    assert text.startswith(f"run: {sys.executable} -m pip install {what}") and text.endswith("[atari]'")
