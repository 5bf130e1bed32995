"""Headless Chromium, driven through its DevTools protocol over two pipes.

Needs nothing but the standard library and the browser. ``EQRM_CHROMIUM`` names another one.
"""

from __future__ import annotations

import base64
import fcntl
import importlib.util
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
ABSENT = (
    "no Chromium here: install it with scripts/install_chromium.sh (root), "
    "or name one in EQRM_CHROMIUM"
)
WITHOUT_AXE = (
    "axe-core is not installed: pip install axe-core-python, or name axe.min.js in EQRM_AXE"
)
PATIENCE = 120.0
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)


def chromium() -> str | None:
    """The browser's path, or None."""
    given = os.environ.get("EQRM_CHROMIUM")
    return given or next((path for name in NAMES if (path := shutil.which(name))), None)


def axe() -> str | None:
    """The source of axe-core, the library that checks accessibility, or None."""
    given = os.environ.get("EQRM_AXE")
    if given:
        return Path(given).read_text("utf-8")
    spec = importlib.util.find_spec("axe_core_python")
    if spec is None or spec.origin is None:
        return None
    return (Path(spec.origin).parent / "axe.min.js").read_text("utf-8")


class Browser:
    """One page at a time; what it logs, asks for and throws is kept in ``events``."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, back: int) -> None:
        self.process, self._to, self._back = process, to, back
        self._buffer, self._number, self._session = b"", 0, None
        self._scripts = True
        self.events: list[dict[str, Any]] = []

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """A fresh page that shows a file."""
        if self._session is not None:
            self.send("Target.closeTarget", targetId=self._target, session=None)
        self._session, self.events = None, []
        self._target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{part}.enable")
        self.resize(width, height)
        self.medium("screen", dark)
        self.send("Emulation.setScriptExecutionDisabled", value=not self._scripts)
        self.send("Page.navigate", url=path.as_uri())
        self.wait_for("Page.loadEventFired")

    def resize(self, width: int, height: int) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def medium(self, medium: str, dark: bool = False) -> None:
        """Screen or print, light or dark."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media=medium, features=[scheme])

    def ask(self, script: str) -> Any:
        """The value of an expression on the page."""
        answer = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def scripts(self, allowed: bool) -> None:
        """Whether pages may run scripts, from the next one that is opened."""
        self._scripts = allowed

    def pdf(self) -> bytes:
        """The page as printed."""
        self.send("Emulation.setEmulatedMedia", media="")  # else it prints as the screen shows it
        return base64.b64decode(self.send("Page.printToPDF")["data"])

    @property
    def complaints(self) -> list[Any]:
        """Errors, warnings, exceptions and dialogs."""
        self.ask("1")
        kinds = {
            "Runtime.exceptionThrown",
            "Runtime.consoleAPICalled",
            "Log.entryAdded",
            "Page.javascriptDialogOpening",
        }
        return [event for event in self.events if event["method"] in kinds]

    @property
    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        self.ask("1")
        sent = "Network.requestWillBeSent"
        return [e["params"]["request"]["url"] for e in self.events if e["method"] == sent]

    def send(self, method: str, session: str | None = "", **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        chosen = self._session if session == "" else session
        if chosen is not None:
            message["sessionId"] = chosen
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def wait_for(self, method: str) -> None:
        while not any(event["method"] == method for event in self.events):
            self._read()

    def _read(self) -> dict[str, Any]:
        """The next message; events are kept."""
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._back], [], [], max(0.0, until - time.monotonic()))
            part = os.read(self._back, 1 << 20) if ready else b""
            if not part:
                raise AssertionError(f"Chromium said nothing for {PATIENCE:g} s, or ended.")
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message


@contextmanager
def browser(path: str) -> Iterator[Browser]:
    """A Chromium that lives as long as the block, with a profile of its own."""
    their_in, our_out = os.pipe()
    our_in, their_out = os.pipe()
    # DevTools reads descriptor 3 and writes descriptor 4, so ours must not stand there.
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (their_in, their_out, our_out, our_in)]
    for end in (their_in, their_out, our_out, our_in):
        os.close(end)

    def connect() -> None:
        os.dup2(ends[0], 3)
        os.dup2(ends[1], 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [path, *FLAGS, f"--user-data-dir={profile}"],
            preexec_fn=connect,
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in ends[:2]:
            os.close(end)
        found = Browser(process, *ends[2:])
        try:
            yield found
        finally:
            try:
                os.write(ends[2], b'{"id":0,"method":"Browser.close"}\0')
                process.wait(timeout=5)
            except (OSError, subprocess.TimeoutExpired):
                process.kill()
                process.wait()
            for end in ends[2:]:
                os.close(end)
