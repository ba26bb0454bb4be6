"""A local HTTP server that can misbehave."""

import os
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest.mock import patch


class Mirror:
    """The files of a server, its behaviour, and the requests it received."""

    def __init__(
        self, files, ranges=True, stop_after=None, stall=False, damage=False, headers=None
    ):
        self.files = files
        self.ranges = ranges
        """Whether it supports range requests."""
        self.stop_after = stop_after
        """Bytes after which a response ends too early."""
        self.stall = stall
        """Whether it then stalls instead of closing the connection."""
        self.damage = damage
        """Whether it changes a byte of the content."""
        self.headers = headers or {}
        """Additional headers of every response."""
        self.asked, self.sent, self.url = [], 0, ""
        self.over = threading.Event()

    def answer(self, handler):
        name, wanted = handler.path.rsplit("/")[-1], handler.headers.get("Range")
        self.asked.append((name, wanted))
        if name not in self.files:
            return handler.send_error(404)
        content = self.files[name]
        start = int(wanted[len("bytes=") : -1]) if wanted and self.ranges else 0
        if start and start >= len(content):
            return handler.send_error(416)
        handler.send_response(206 if start else 200)
        if start:
            where = f"bytes {start}-{len(content) - 1}/{len(content)}"
            handler.send_header("Content-Range", where)
        handler.send_header("Content-Length", str(len(content) - start))
        for header, value in self.headers.items():
            handler.send_header(header, value)
        handler.end_headers()
        if handler.command == "HEAD":
            return None
        body = content[start:][: self.stop_after]
        if self.damage:
            body = bytes([body[0] ^ 1]) + body[1:]
        handler.wfile.write(body)
        self.sent += len(body)
        if self.stall and self.stop_after is not None:
            handler.wfile.flush()
            self.over.wait(10)


@contextmanager
def serving(*mirrors):
    """Serve each mirror at its own URL."""
    servers = []
    for mirror in mirrors:

        class Handler(BaseHTTPRequestHandler):
            behaviour = mirror

            def do_GET(self):
                self.behaviour.answer(self)

            do_HEAD = do_GET

            def log_message(self, *args):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        mirror.url = f"http://127.0.0.1:{server.server_port}/data"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
    try:
        with patch.dict(os.environ, no_proxy="127.0.0.1"):
            yield [mirror.url for mirror in mirrors]
    finally:
        for mirror, server in zip(mirrors, servers, strict=True):
            mirror.over.set()
            server.shutdown()
            server.server_close()
