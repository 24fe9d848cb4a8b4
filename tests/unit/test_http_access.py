"""TLS and a login before /metrics and the lag inspector, by settings; open on loopback by default."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
from starlette.requests import Request

from app.entrance import Login
from app.moved import routes
from metrics import exporter
from metrics.exporter import MOST_CONNECTIONS, SILENT_S, serve
from metrics.http_access import HttpAccess
from mirror.cli import main
from mirror.config.load import load
from mirror.errors import SettingsError
from tests.certificates import identity
from tests.waiting import eventually

FILE = """clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""


@pytest.fixture
def certificate(tmp_path):
    """A PEM file with a certificate of its own and its key."""
    own = identity("127.0.0.1")
    (tmp_path / "door.pem").write_text(own.pem + own.key_pem)
    return str(tmp_path / "door.pem")


@pytest.fixture
def settings(tmp_path):
    def made(*lines: str) -> HttpAccess:
        (tmp_path / "f").write_text(FILE + "\n".join(lines))
        return load(tmp_path / "f").mirror.http

    return made


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    ("header", "comes_in"),
    [
        (basic("sre:p:w ä"), True),
        (basic("sre:p:w ä").replace("Basic", "basic"), True),
        (basic("sre:wrong"), False),
        (basic("other:p:w ä"), False),
        ("Bearer " + basic("sre:p:w ä")[6:], False),
        ("Basic %%%", False),
        ("", False),
    ],
)
def test_a_login_is_the_name_and_the_password(header, comes_in):
    access = HttpAccess(username="sre", password="p:w ä")
    assert access.authorizes(header) is comes_in
    assert HttpAccess().authorizes(header)
    assert "p:w" not in repr(access)


def test_metrics_are_read_over_tls_with_a_login_and_ready_without(settings, certificate):
    access = settings(
        "mirror.http.username = sre", "mirror.http.password = hush", f"mirror.http.tls.certificate = {certificate}"
    )
    with serve(lambda _: b"up 1\n", "127.0.0.1", 0, is_ready=lambda: True, access=access) as port:
        address = f"127.0.0.1:{port}"
        assert access.read(address, "/metrics", timeout_s=5) == "up 1\n"
        stranger = HttpAccess(certificate=certificate)
        assert stranger.read(address, "/ready", timeout_s=5) == "ready\n"
        with pytest.raises(urllib.error.HTTPError) as refused:
            stranger.read(address, "/metrics", timeout_s=5)
        assert refused.value.code == 401
        assert refused.value.headers["WWW-Authenticate"] == 'Basic realm="kafka-mirror"'
        refused.value.close()
        with pytest.raises(OSError, match="certificate verify failed"):
            urllib.request.urlopen(f"https://{address}/metrics", timeout=5, context=ssl.create_default_context())
        with pytest.raises(OSError, match=r"Connection|closed|violation"):
            HttpAccess().read(address, "/metrics", timeout_s=5)
        assert access.read(address, "/metrics", timeout_s=5), "who speaks no TLS disturbs nobody"


def test_new_connections_use_the_certificate_of_a_changed_file(certificate, caplog):
    access, file = HttpAccess(certificate=certificate), Path(certificate)

    def replaced(text: str) -> None:
        (file.parent / "new.pem").write_text(text)
        (file.parent / "new.pem").rename(file)

    first = HttpAccess(certificate=str(file.with_name("first.pem")))
    Path(first.certificate).write_text(file.read_text())
    with serve(lambda _: b"up 1\n", "127.0.0.1", 0, is_ready=lambda: True, access=access) as port:
        address = f"127.0.0.1:{port}"
        assert first.read(address, "/ready", timeout_s=5) == "ready\n"
        own, another = identity("127.0.0.1"), identity("127.0.0.1")
        for bad in ("", own.pem, own.pem + another.key_pem):
            replaced(bad)
            assert first.read(address, "/ready", timeout_s=5) == "ready\n"
        assert caplog.text.count("the old certificate stays") == 3
        replaced(own.pem + own.key_pem)
        assert access.read(address, "/ready", timeout_s=5) == "ready\n"
        with pytest.raises(OSError, match="certificate verify failed"):
            first.read(address, "/ready", timeout_s=5)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["mirror.http.username = sre"], "mirror.http.username: .*give both mirror.http.username and .password"),
        (["mirror.http.password = hush"], "mirror.http.password: needs the other one"),
        (["mirror.http.username = s:r", "mirror.http.password = hush"], "holds a colon"),
        (["mirror.http.tls.key = /k.pem"], "is a key without a certificate"),
        (["mirror.http.tls.certificate = /none.pem"], "No such file"),
        (["mirror.http.tls.certificate = /etc/hostname"], "cannot be used"),
    ],
)
def test_half_a_door_is_refused(settings, lines, complaint):
    with pytest.raises(SettingsError, match=complaint) as refused:
        settings(*lines)
    assert "hush" not in str(refused.value)


def test_the_inspector_refuses_an_address_that_it_cannot_have(tmp_path, capsys):
    (tmp_path / "f").write_text(FILE)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        assert main(["app", str(tmp_path / "f"), "--listen", taken]) == SettingsError.exit_code
    assert f"cannot listen on {taken} (Address already in use); set --listen" in capsys.readouterr().err
    assert main(["app", str(tmp_path / "f"), "--listen", "8501"]) == SettingsError.exit_code
    assert '--listen: "8501" is not an address' in capsys.readouterr().err


def test_the_inspector_asks_pages_and_websockets_alike():
    came_in: list[str] = []
    said: list[dict[str, object]] = []

    async def inside(scope, receive, send) -> None:
        came_in.append(scope["path"])

    async def send(message) -> None:
        said.append(message)

    async def asks(kind: str, path: str, header: str = "") -> None:
        scope = {"type": kind, "path": path, "headers": [(b"authorization", header.encode("latin-1"))]}
        await Login(inside, HttpAccess(username="sre", password="hush"))(scope, None, send)

    for kind, path, header in (
        ("http", "/", ""),
        ("websocket", "/_stcore/stream", basic("sre:wrong")),
        ("http", "/", basic("sre:hush")),
        ("websocket", "/_stcore/stream", basic("sre:hush")),
        ("http", "/_stcore/health", ""),
    ):
        asyncio.run(asks(kind, path, header))
    assert came_in == ["/", "/_stcore/stream", "/_stcore/health"]
    assert [(m["type"], m.get("status") or m.get("code")) for m in said if m["type"] != "http.response.body"] == [
        ("http.response.start", 401),
        ("websocket.close", 1008),
    ]


@pytest.mark.parametrize(
    ("path", "query", "location"),
    [
        ("/lag", "source=a&target=b&topic=a.t", "/partitions?source=a&target=b&topic=a.t"),
        ("/topic", "", "/topics"),
        ("/overview", "refresh=5+s", "/?refresh=5+s"),
        ("/fleet", "", "/"),
    ],
)
def test_addresses_of_earlier_versions_redirect(path, query, location):
    (route,) = [route for route in routes(is_fleet=path == "/fleet") if route.path == path]
    request = Request({"type": "http", "path": path, "query_string": query.encode(), "headers": []})
    response = asyncio.run(route.endpoint(request))
    assert (response.status_code, response.headers["location"]) == (307, location)


@pytest.mark.parametrize("has_tls", [False, True])
def test_silent_clients_delay_neither_scrapes_nor_the_stop(certificate, has_tls):
    access = HttpAccess(certificate=certificate) if has_tls else HttpAccess()
    began_s = time.monotonic()
    with ExitStack() as stack:
        with serve(lambda _: b"up 1\n", "127.0.0.1", 0, is_ready=lambda: True, access=access) as port:
            for number in range(MOST_CONNECTIONS + 8):
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                client.sendall(b"GET /metrics HT" if number % 2 and not has_tls else b"")
            assert access.read(f"127.0.0.1:{port}", "/metrics", timeout_s=10) == "up 1\n"
        assert time.monotonic() - began_s < SILENT_S, "nobody waited for them"


def test_a_slow_client_is_disconnected(monkeypatch):
    monkeypatch.setattr(exporter, "LASTS_S", 0.2)
    with (
        serve(lambda _: b"up 1\n", "127.0.0.1", 0, is_ready=lambda: True) as port,
        socket.create_connection(("127.0.0.1", port), timeout=20) as client,
    ):
        client.sendall(b"GET ")
        assert client.recv(1) == b""


def test_a_client_that_reads_nothing_is_cut_off(monkeypatch):
    monkeypatch.setattr(exporter, "LASTS_S", 0.2)

    def is_served() -> bool:
        return any("process_request" in each.name for each in threading.enumerate())

    with (
        serve(lambda _: bytes(64 << 20), "127.0.0.1", 0, is_ready=lambda: True) as port,
        socket.create_connection(("127.0.0.1", port), timeout=20) as client,
    ):
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        eventually(is_served, within_s=5, because="it has a thread")
        eventually(lambda: not is_served(), within_s=5, because="its thread ends")
        assert sum(iter(lambda: len(client.recv(1 << 20)), 0)) < 64 << 20
