"""Chromium without a window, driven over its DevTools protocol: opens pages, evaluates, takes pictures."""

import base64
import contextlib
import itertools
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from websockets.sync.client import connect

_DEADLINE_SECS = 60.0
_POLL_SECS = 0.05
_CLOSE_SECS = 5.0


def chromium() -> str | None:
    """The path of Chromium, or of what is built on it; None: it is not installed."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """A browser with one page; a context manager.

    Attributes:
      problems: what the page has reported as errors so far.
    """

    def __init__(self, url: str, width: int = 1280, height: int = 900, dark: bool = False):
        """Opens a page in a window of this size, in pixels."""
        self.problems: list[str] = []
        self._ids = itertools.count(1)
        self._home = tempfile.TemporaryDirectory(prefix="browser_", ignore_cleanup_errors=True)
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
        self._process = subprocess.Popen(
            [str(chromium()), *options, f"--user-data-dir={self._home.name}", "about:blank"],
            stderr=subprocess.DEVNULL,
        )
        place = Path(self._home.name, "DevToolsActivePort")
        deadline = time.monotonic() + _DEADLINE_SECS
        while not place.is_file() or not place.read_text():
            if time.monotonic() > deadline:
                raise TimeoutError("Chromium did not start.")
            time.sleep(_POLL_SECS)
        port = place.read_text().splitlines()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as found:
            target = next(one for one in json.load(found) if one["type"] == "page")
        self._socket = connect(target["webSocketDebuggerUrl"], max_size=None, proxy=None)
        for domain in ("Page", "Runtime", "Log"):
            self.order(f"{domain}.enable")
        self.resize(width, height, dark)
        self.order("Page.navigate", url=url)

    def order(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Gives an order of the protocol; returns its result."""
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            said = json.loads(self._socket.recv(_DEADLINE_SECS))
            if said.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.problems.append(json.dumps(said["params"]))
            if said.get("id") == number:
                if "error" in said:
                    raise RuntimeError(said["error"]["message"])
                return dict(said["result"])

    def resize(self, width: int, height: int, dark: bool = False, still: bool = False) -> None:
        """Sets the size in pixels, the colour scheme, and whether the reader prefers reduced motion."""
        sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.order("Emulation.setDeviceMetricsOverride", **sizes)
        features = {
            "prefers-color-scheme": "dark" if dark else "light",
            "prefers-reduced-motion": "reduce" if still else "no-preference",
        }
        self.order(
            "Emulation.setEmulatedMedia", features=[{"name": k, "value": v} for k, v in features.items()]
        )

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        return self.order("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get(
            "value"
        )

    def wait_for(self, expression: str) -> Any:
        """Waits until an expression is true; returns its value. TimeoutError with the text of the page."""
        deadline = time.monotonic() + _DEADLINE_SECS
        while not (found := self.evaluate(expression)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{expression}: {self.evaluate('document.body.innerText')}")
            time.sleep(_POLL_SECS)
        return found

    def press(self, key: str, is_down: bool) -> None:
        """Presses or releases a key."""
        self.order("Input.dispatchKeyEvent", type="keyDown" if is_down else "keyUp", key=key)

    def picture(self, path: Path) -> None:
        """Writes a picture of what is visible, as PNG."""
        path.write_bytes(base64.b64decode(self.order("Page.captureScreenshot", format="png")["data"]))

    def __enter__(self) -> "Browser":
        """Does nothing: it is open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the browser."""
        with contextlib.suppress(Exception):  # It closes the connection as well.
            self.order("Browser.close")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_SECS)
        self._process.kill()
        self._process.wait()
        self._home.cleanup()
