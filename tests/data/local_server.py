"""A web server on this machine that can break off, lie, and serve parts of files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """What the server has, how it behaves, and what it was asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    break_after: int | None = None
    mark: str = '"first"'
    ranges: bool = True
    address: str = ""
    asked: list[tuple[str, str | None]] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    """Serves whole files, and the rest of a file where it is asked for by its mark."""

    served: Served

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.served.asked.append((self.path, wanted))
        content = self.served.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = 0
        same = self.headers.get("If-Range") == self.served.mark
        if wanted and self.served.ranges and same:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - start))
        if self.served.mark:
            self.send_header("ETag", self.served.mark)
        self.end_headers()
        self._send(content[start:])

    def _send(self, content: bytes) -> None:
        if self.served.break_after is None:
            self.wfile.write(content)
            return
        self.wfile.write(content[: self.served.break_after])
        self.wfile.flush()
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def local_server() -> Iterator[Served]:
    """A server on a free port of this machine, until the end of the block."""
    served = Served()
    handler = type("OwnHandler", (Handler,), {"served": served})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    served.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
