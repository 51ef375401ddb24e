"""A page in headless Chromium, driven over the DevTools pipe: needs the browser and nothing else."""

import fcntl
import json
import os
import selectors
import shutil
import subprocess
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
)
TIMEOUT = 60.0


def find_browser() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One page. `problems` collects console errors, uncaught exceptions and refused loads.

    requests: the address of everything the page loaded.
    """

    def __init__(self, browser: str, profile: Path) -> None:
        commands, self._commands = os.pipe()
        self._replies, replies = os.pipe()
        # Chromium reads commands from descriptor 3 and writes replies to 4; ours stay clear of them
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (commands, replies)]
        shell = f'exec "$@" 3<&{ends[0]} 4>&{ends[1]}'
        with (profile / "browser.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", shell, "bash", browser, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
                pass_fds=ends,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        for end in (commands, replies, *ends):
            os.close(end)
        self._log = profile / "browser.log"
        self._buffer = b""
        self._last_id = 0
        self._session: str | None = None
        self._events: list[str] = []
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._commands)  # Chromium leaves when its pipe closes
        try:
            self._process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._replies)

    def open(self, file: Path) -> None:
        self.visit(file.resolve().as_uri())

    def visit(self, url: str) -> None:
        self._events.clear()
        self.send("Page.navigate", url=url)
        self._wait_for("Page.loadEventFired")

    def js(self, expression: str) -> Any:
        """The value of an expression on the page."""
        reply = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in reply:
            raise AssertionError(f"{expression}: {reply['exceptionDetails']}")
        return reply["result"].get("value")

    def press(self, key: str) -> None:
        """Press a named key, such as ArrowDown, or a letter."""
        letter = {"text": key} if len(key) == 1 else {"code": key, "windowsVirtualKeyCode": CODES[key]}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **letter)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Set the window's size and the preferred colours."""
        window = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **window)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        reply = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(b64decode(reply["data"]))

    def send(self, method: str, **params: Any) -> Any:
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + TIMEOUT
        while (reply := self._receive(deadline)).get("id") != self._last_id:
            pass
        if "error" in reply:
            raise AssertionError(f"{method}: {reply['error']}")
        return reply["result"]

    def _wait_for(self, event: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        while event not in self._events:
            self._receive(deadline)

    def _receive(self, deadline: float) -> dict[str, Any]:
        with selectors.DefaultSelector() as selector:
            selector.register(self._replies, selectors.EVENT_READ)
            while b"\0" not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError(f"the browser did not answer:\n{self._tail()}")
                chunk = os.read(self._replies, 1 << 20)
                if not chunk:
                    raise ConnectionError(f"the browser ended:\n{self._tail()}")
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, params: dict[str, Any]) -> None:
        self._events.append(event)
        if event == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(str(params["args"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(str(params["entry"]))
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def _tail(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-2000:]


CODES = {"ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "Tab": 9}


def chromium_page(profile: Path, tested: str) -> Iterator[Page]:
    """A page for a fixture to hand out. Without Chromium the tests are skipped, and in CI they fail."""
    browser = find_browser()
    if browser is None:
        advice = f"no Chromium found: install it (Debian: apt-get install chromium) to test {tested} in it"
        if os.environ.get("CI") == "true":
            pytest.fail(advice)
        pytest.skip(advice)
    with Page(browser, profile) as page:
        yield page
