import threading

from seed_rl.metrics.outputs import Guard


def fail(error):
    raise error


def test_trouble_is_said_once_for_each_output_and_it_is_tried_again():
    said = []
    guard = Guard(said.append)
    for error in (OSError(28, "No space left"), ValueError(), SystemExit(1)):
        assert guard.call("a file", fail, error) is None
        assert guard.call("a service", fail, error, seconds=60.0) is None
    assert guard.call("a file", sum, [1, 2]) == 3
    assert said == [
        "a file cannot be written ([Errno 28] No space left); training continues without it.",
        "a service cannot be written ([Errno 28] No space left); training continues without it.",
    ]


def test_an_output_that_hangs_is_not_waited_for_and_not_called_again():
    said, calls, done = [], [], threading.Event()

    def hang():
        calls.append(1)
        done.wait(60.0)

    guard = Guard(said.append)
    for _ in range(2):
        assert guard.call("a service", hang, seconds=0.05) is None
    assert len(calls) == 1
    assert said == ["a service cannot be written (it takes more than 0.05 s); training continues without it."]
    done.set()
