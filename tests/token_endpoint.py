"""An OAuth token endpoint on loopback, for tests: gives tokens without a signature, as Kafka's own test broker takes them."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs


def unsigned(subject: str, *, life_s: float) -> str:
    """A JSON web token of algorithm "none"."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + life_s})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


class TokenEndpoint:
    """Serves one client id and secret; `answers` replaces what it says: (status, headers, body), first to last."""

    def __init__(self, client_id: str, secret: str, *, life_s: float = 3600) -> None:
        self.credentials = f"{client_id}:{secret}"
        self.life_s = life_s
        self.asked: list[dict[str, list[str]]] = []
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                endpoint.asked.append(form)
                given = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
                self.tell(*endpoint.answer(given))

            def do_GET(self) -> None:
                endpoint.asked.append({"GET": [self.path]})
                self.tell(200, {}, b"{}")

            def tell(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"

    def answer(self, given: str) -> tuple[int, dict[str, str], bytes]:
        if self.answers:
            return self.answers.pop(0)
        if given != self.credentials:
            return 401, {}, b'{"error": "invalid_client"}'
        token = unsigned(given.partition(":")[0], life_s=self.life_s)
        return 200, {}, json.dumps({"access_token": token, "expires_in": self.life_s}).encode()

    def __enter__(self) -> Self:
        serving = {"poll_interval": 0.02}  # a stop waits for it
        threading.Thread(target=self._server.serve_forever, kwargs=serving, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
