"""Serve HTTP: `/metrics` for Prometheus, `/api/v1/status` and `/errors` for the lag inspector, `/ready` for a supervisor."""

from __future__ import annotations

import gzip
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from metrics.exposition import Format, negotiated
from metrics.http_access import CHALLENGE, REFUSAL, HttpAccess
from metrics.last_errors import LastErrors
from metrics.process_status import ProcessStatus

STATUS_PATH = "/api/v1/status"
log = logging.getLogger("mirror")

OPEN = HttpAccess()

NO_ERRORS = LastErrors().text()
SILENT_S = 10.0  # that a client may say nothing, or read nothing
LASTS_S = 60.0  # a connection at most, however slowly its client goes on
MOST_CONNECTIONS = 32
STOPS_WITHIN_S = 0.1  # between two looks whether the server must stop, for which the stop of the process waits
_PLAIN = "text/plain; charset=utf-8"
_FAST = 1  # gzip's level: a scrape of 15 MB is 2 % of that at any level, and the higher ones cost seconds
_Start = Callable[[str, list[tuple[str, str]]], object]


class PortTakenError(Exception):
    """The address to listen on is not free."""


class _Handler(WSGIRequestHandler):
    timeout = SILENT_S  # of each read and write, of a TLS handshake too

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Scrapes are not worth a log line."""


class _Server(ThreadingMixIn, WSGIServer):
    """Serve each connection in its own thread, for a limited time, so that a silent or slow client blocks no other.

    If there are MOST_CONNECTIONS, a new connection ends the oldest one.
    """

    daemon_threads = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._began_s: dict[socket.socket, float] = {}  # in their order; changed by each connection's thread
        self._lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection."""
        with self._lock:
            if len(self._began_s) >= MOST_CONNECTIONS:
                _end(next(iter(self._began_s)))
            self._began_s[request] = time.monotonic()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End the connections whose time is over; the server's loop calls it again and again."""
        with self._lock:
            for connection, began_s in self._began_s.items():
                if time.monotonic() > began_s + LASTS_S:
                    _end(connection)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection that is answered, or has failed."""
        with self._lock:
            self._began_s.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that hang up, or speak no TLS; all else is answered with a 500 and logged."""


def _end(connection: socket.socket) -> None:
    """Have the reads and writes of a connection fail, which ends its thread."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def serve(
    answer: Callable[[Format], bytes],
    host: str,
    port: int,
    *,
    tries: int = 1,
    is_ready: Callable[[], bool],
    errors: Callable[[], str] = lambda: NO_ERRORS,
    status: Callable[[], str] = lambda: ProcessStatus({}).text(),
    access: HttpAccess = OPEN,
) -> Iterator[int]:
    """Serve until the context ends; yields the port (a given 0 picks a free one). `/ready` asks for no login.

    If a port is taken, the next one is tried, `tries` of them in all.

    `answer` answers a scrape in the format that its Accept header asks for, `errors` and `status` return what `/errors`
    and `/api/v1/status` respond.

    Raises:
        PortTakenError: when the address is in use or cannot be bound.
        OSError: the certificate cannot be used.
    """
    tls = access.server_context()

    application = _application(answer, is_ready, {"/errors": errors, STATUS_PATH: status}, access)
    server = _listening(host, range(port, port + tries), application)
    if tls is not None:  # the handshake is the request's thread's: a client that says nothing holds up nobody
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": STOPS_WITHIN_S}, name="metrics", daemon=True
    )
    thread.start()
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def _listening(host: str, ports: Sequence[int], application: Any) -> _Server:
    """Return a server on the first of some ports that is free; raise PortTakenError for the last one."""
    for port in ports:
        try:
            return make_server(host, port, application, server_class=_Server, handler_class=_Handler)
        except OSError as error:
            if port == ports[-1]:
                taken = f"cannot listen on {host}:{port} ({error.strerror})"
                raise PortTakenError(f"{taken}; set mirror.metrics.listen to another") from error
    raise ValueError("no ports were given")


def _application(
    answer: Callable[[Format], bytes],
    is_ready: Callable[[], bool],
    documents: Mapping[str, Callable[[], str]],
    access: HttpAccess,
) -> Callable[[dict[str, object], _Start], Iterable[bytes]]:
    """Return what answers the requests, as WSGI has it."""

    def app(environ: dict[str, object], start: _Start) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/ready":
            ready = is_ready()
            start("200 OK" if ready else "503 Service Unavailable", [("Content-Type", _PLAIN)])
            return [b"ready\n" if ready else b"starting\n"]
        if not access.authorizes(str(environ.get("HTTP_AUTHORIZATION", ""))):
            start("401 Unauthorized", [("Content-Type", _PLAIN), ("WWW-Authenticate", CHALLENGE)])
            return [REFUSAL]
        if (document := documents.get(str(path))) is not None:
            start("200 OK", [("Content-Type", "application/json")])
            return [document().encode()]
        if path not in ("/metrics", "/"):
            start("404 Not Found", [("Content-Type", _PLAIN)])
            return [b"try /metrics, /api/v1/status, /errors or /ready\n"]
        try:
            wanted = negotiated(str(environ.get("HTTP_ACCEPT", "")))
            body = answer(wanted)
        except Exception:
            log.exception("a scrape could not be answered")
            start("500 Internal Server Error", [("Content-Type", _PLAIN)])
            return [b"the log has the error\n"]
        headers = [("Content-Type", wanted.value), ("Vary", "Accept")]
        if "gzip" in str(environ.get("HTTP_ACCEPT_ENCODING", "")):
            headers.append(("Content-Encoding", "gzip"))
            body = gzip.compress(body, _FAST)
        start("200 OK", headers)
        return [body]

    return app
