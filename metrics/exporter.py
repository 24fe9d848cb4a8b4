"""Serve HTTP: `/metrics` for Prometheus, `/api/v1/status`, `/errors`, and `/ready` for a supervisor."""

from __future__ import annotations

import gzip
import logging
import socket
import ssl
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
SILENT_S = 10.0  # timeout of a client's reads and writes
LASTS_S = 60.0  # maximum duration of a connection, even if its client is slow
MOST_CONNECTIONS = 32
STOPS_WITHIN_S = 0.1  # between two checks whether the server must stop; they delay the stop of the process
_PLAIN = "text/plain; charset=utf-8"
_FAST = 1  # gzip's level: it shrinks a scrape of 15 MB to 2 % at any level, and higher levels cost seconds
_Start = Callable[[str, list[tuple[str, str]]], object]


class PortTakenError(Exception):
    """The address to listen on is not free."""


class _Handler(WSGIRequestHandler):
    timeout = SILENT_S  # of each read and write, and of the TLS handshake

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log nothing: a scrape is not worth a log line."""


class _Server(ThreadingMixIn, WSGIServer):
    """Serves each connection in its own thread for a limited time.

    A slow client blocks no other client. At MOST_CONNECTIONS, a new connection ends the oldest one.
    """

    daemon_threads = True
    tls: ssl.SSLContext | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._began_s: dict[socket.socket, float] = {}  # in order of their start; each connection's thread changes it
        self._lock = threading.Lock()

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection. Its thread does the TLS handshake, so that a silent client blocks no other client."""
        connection, address = super().get_request()
        if self.tls is not None:
            connection = self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection."""
        with self._lock:
            if len(self._began_s) >= MOST_CONNECTIONS:
                _end(next(iter(self._began_s)))
            self._began_s[request] = time.monotonic()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """End connections that are open for too long; the server's loop calls it repeatedly."""
        with self._lock:
            for connection, began_s in self._began_s.items():
                if time.monotonic() > began_s + LASTS_S:
                    _end(connection)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection after its response or its failure."""
        with self._lock:
            self._began_s.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing about clients that hang up or do not use TLS.

        Other errors get a 500 and a log line.
        """


def _end(connection: socket.socket) -> None:
    """Shut down a connection: its reads and writes fail, which ends its thread."""
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
    """Serve until the context ends, and yield the port (0: a free one).

    `/ready` needs no login.

    If the port is taken, the following ports are tried, up to `tries` ports in total.

    `answer` returns a scrape in the format that the request's Accept header selects. `errors` and `status` return the bodies of
    `/errors` and `/api/v1/status`.

    Raises:
        PortTakenError: The address is in use or cannot be bound.
        OSError: The certificate cannot be used.
    """
    tls = access.server_context()

    application = _application(answer, is_ready, {"/errors": errors, STATUS_PATH: status}, access)
    server = _listening(host, range(port, port + tries), application)
    server.tls = tls
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
    """Return a server on the first free port; raises PortTakenError if none is free."""
    for port in ports:
        try:
            return make_server(host, port, application, server_class=_Server, handler_class=_Handler)
        except OSError as error:
            if port == ports[-1]:
                taken = f"cannot listen on {host}:{port} ({error.strerror})"
                raise PortTakenError(f"{taken}; set mirror.metrics.listen to another address") from error
    raise ValueError("no ports were given")


def _application(
    answer: Callable[[Format], bytes],
    is_ready: Callable[[], bool],
    documents: Mapping[str, Callable[[], str]],
    access: HttpAccess,
) -> Callable[[dict[str, object], _Start], Iterable[bytes]]:
    """Return the WSGI application that responds to requests."""

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
            log.exception("a scrape failed")
            start("500 Internal Server Error", [("Content-Type", _PLAIN)])
            return [b"internal error; see the log\n"]
        headers = [("Content-Type", wanted.value), ("Vary", "Accept")]
        if "gzip" in str(environ.get("HTTP_ACCEPT_ENCODING", "")):
            headers.append(("Content-Encoding", "gzip"))
            body = gzip.compress(body, _FAST)
        start("200 OK", headers)
        return [body]

    return app
