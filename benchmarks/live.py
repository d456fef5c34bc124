"""Measures the cost of the live page: frames/s without it, with it closed, and with it open.

    python -m benchmarks live                 # On an idle machine.
    python -m benchmarks live --plots=docs    # Pictures of it as well (docs/live_page.md); needs Chromium.

Each round is a run without --web_address, then one with it, where the page is open in every other window of
time. What opens it reads all frames and draws nothing, since a browser is mostly on another machine.
"""

import contextlib
import dataclasses
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from benchmarks.browser import Browser, chromium
from benchmarks.harness import LocalRun, make_directory, print_result, print_table
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError
from seed_rl.options import Options, option

_START_SECS = 120.0
_WARM_UP_SECS = 20.0
# Name, width, height in pixels, and whether it is dark.
_PICTURES = (("wide", 1280, 1700, False), ("dark", 1280, 1700, True), ("narrow", 390, 1700, False))


@dataclasses.dataclass(frozen=True)
class LiveConfig(Options):
    """Settings of the benchmark of the live page."""

    environment: str = option("atari", "The environment.")
    seconds: float = option(20.0, "Seconds of each window.", above=0)
    windows: int = option(
        3, "Windows with the page open, and as many with it closed, in each run.", at_least=1
    )
    rounds: int = option(2, "Rounds.", at_least=1)
    web_address: str = option("127.0.0.1:8099", "The address of the page.")
    plots: str | None = option(None, "Where pictures are written; none by default.", is_path=True)


def main(argv: list[str]) -> int:
    """Measures, takes pictures, and prints a table."""
    config, _ = parse_options(argv, __doc__ or "", LiveConfig)
    if config.plots:
        make_directory("plots", config.plots)
        if not chromium():
            raise UsageError("--plots needs Chromium; install it, or leave the flag out.")
    speeds: dict[str, list[float]] = {"no page": [], "closed": [], "open": []}
    flags = [config.environment, "vtrace", "--log_period_secs=1", "--total_environment_frames=1000000000"]
    for _ in range(config.rounds):
        with LocalRun(flags) as run:
            _warm_up(run)
            for _ in range(config.windows):
                speeds["no page"].append(_speed(run, config.seconds))
        with LocalRun([*flags, f"--web_address={config.web_address}"]) as run:
            _warm_up(run)
            for _ in range(config.windows):
                speeds["closed"].append(_speed(run, config.seconds))
                with _opened(config.web_address):
                    speeds["open"].append(_speed(run, config.seconds))
            if config.plots:
                _take_pictures(config.web_address, Path(config.plots))
    medians = {name: statistics.median(found) for name, found in speeds.items()}
    rows = [
        [name, f"{medians[name]:,.0f}", f"{medians[name] / medians['no page']:.3f}", f"{len(found)}"]
        for name, found in speeds.items()
    ]
    print_table("The live page", ["page", "frames/s (median)", "of no page", "windows"], rows)
    ratios = [a / b for a, b in zip(speeds["open"], speeds["closed"], strict=True)]
    print(f"Open against closed, neighbouring windows: {statistics.median(ratios):.3f} (median)")
    print_result({"speeds": speeds, "open_by_closed": statistics.median(ratios)})
    return 0


def _warm_up(run: LocalRun) -> None:
    run.wait_until(lambda: bool(run.metrics()), _START_SECS, "figures")
    begin = time.monotonic()
    run.wait_until(lambda: time.monotonic() - begin > _WARM_UP_SECS, _START_SECS, "the end of the warm-up")


def _speed(run: LocalRun, seconds: float) -> float:
    """Frames/s in the periods that end within so many seconds from now."""
    before, begin = len(run.metrics()), time.monotonic()
    run.wait_until(lambda: time.monotonic() - begin > seconds, 2 * seconds, "the end of a window")
    periods = run.metrics()[before:]
    frames, took = (periods[-1][name] - periods[0][name] for name in ("env_frames", "seconds"))
    return float(frames / took)


@contextlib.contextmanager
def _opened(address: str) -> Iterator[None]:
    """Reads the page's frames meanwhile."""
    with connect(f"ws://{address}/live", subprotocols=["seed_rl"], proxy=None) as page:  # type: ignore[list-item]

        def read() -> None:
            with contextlib.suppress(ConnectionClosed):
                while True:
                    page.recv()

        threading.Thread(target=read, daemon=True).start()
        yield


def _take_pictures(address: str, directory: Path) -> None:
    with Browser(f"http://{address}/") as browser:
        for name, width, height, dark in _PICTURES:
            browser.resize(width, height, dark)
            browser.wait_for("document.querySelectorAll('#cells .cell').length > 3")
            time.sleep(2)
            browser.picture(directory / f"live_{name}.png")


if __name__ == "__main__":
    sys.exit(main(sys.argv))
