"""HTTP: `/metrics` for Prometheus and `/ready` for whoever starts us. Loopback unless told otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

_Start = Callable[[str, list[tuple[str, str]]], object]


class PortTakenError(Exception):
    """The address to listen on is not free."""


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Scrapes are not worth a log line."""


class _ThreadingServer(WSGIServer):
    daemon_threads = True


@contextmanager
def serve(registry: CollectorRegistry, host: str, port: int, *, is_ready: Callable[[], bool]) -> Iterator[int]:
    """Serve until the context ends; yields the port (a given 0 picks a free one).

    Raises:
        PortTakenError: when the address is in use or cannot be bound.
    """
    metrics = make_wsgi_app(registry)

    def app(environ: dict[str, object], start: _Start) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/ready":
            ready = is_ready()
            start("200 OK" if ready else "503 Service Unavailable", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"ready\n" if ready else b"starting\n"]
        if environ["PATH_INFO"] in ("/metrics", "/"):
            answer: Iterable[bytes] = metrics(environ, start)
            return answer
        start("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"try /metrics or /ready\n"]

    try:
        server = make_server(host, port, app, server_class=_ThreadingServer, handler_class=_Quiet)
    except OSError as error:
        raise PortTakenError(
            f"cannot listen on {host}:{port} ({error.strerror}); set mirror.metrics.listen to another"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
