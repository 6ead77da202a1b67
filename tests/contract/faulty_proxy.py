"""An HTTP proxy that loses, cuts, holds and falsifies on request, one fault a request of a method."""

import http.client
import socket
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class Fault(Enum):
    LOSE_REQUEST = "the server never sees it"
    LOSE_REPLY = "the server does it, and the connection closes without a word"
    HOLD_REPLY = "the server does it, and no answer comes until the client gives up"
    CUT_REPLY = "the connection closes within the body of the answer"
    DENY_AFTERWARDS = "the server does it, and the answer is 503"
    NONE = "the answer as it is"
    HIDE_CONFLICT = "a 412 becomes a 200, as of a store that ignores If-None-Match"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, upstream_port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream_port = upstream_port
        self.lock = threading.Lock()
        self.planned: deque[tuple[str, Fault]] = deque()
        self.between: Callable[[], None] | None = None
        self.released = threading.Event()
        self.requests: list[tuple[str, str]] = []

    def fault_of(self, method: str) -> Fault | None:
        with self.lock:
            if self.planned and self.planned[0][0] == method:
                return self.planned.popleft()[1]
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.command, self.path))
        fault = self.server.fault_of(self.command)
        if fault is Fault.LOSE_REQUEST:
            self._drop()
            return
        status, headers, answer = self._forward(body)
        if fault is not None and self.server.between is not None:
            self.server.between()
        match fault:
            case Fault.LOSE_REPLY:
                self._drop()
            case Fault.HOLD_REPLY:
                self.server.released.wait(30)
                self._drop()
            case Fault.DENY_AFTERWARDS:
                self._answer(503, [("Content-Length", "0")], b"")
            case Fault.HIDE_CONFLICT if status == 412:
                self._answer(200, [("Content-Length", "0")], b"")
            case Fault.CUT_REPLY:
                self._answer(status, headers, answer[: len(answer) // 2])
                self._drop()
            case _:
                self._answer(status, headers, answer)

    do_PUT = do_GET = do_DELETE = _serve  # noqa: N815 — the base class's names

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.upstream_port, timeout=30)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("expect", "connection"):
                    upstream.putheader(name, value)
            upstream.endheaders(body)
            answer = upstream.getresponse()
            skipped = ("connection", "keep-alive", "transfer-encoding")
            headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in skipped]
            return answer.status, headers, answer.read()
        finally:
            upstream.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _drop(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the base class's name
        pass


class FaultyProxy:
    """Started and stopped as a context."""

    def __init__(self, upstream_port: int) -> None:
        self._server = _Server(upstream_port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> list[tuple[str, str]]:
        """(method, path) of each request so far."""
        return list(self._server.requests)

    @property
    def faults_left(self) -> int:
        return len(self._server.planned)

    def plan(self, method: str, *faults: Fault, between: Callable[[], None] | None = None) -> None:
        """Each coming request of the method meets one fault, in this order. `between` runs before the faulty answer."""
        self._server.planned.extend((method, fault) for fault in faults)
        self._server.between = between

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
