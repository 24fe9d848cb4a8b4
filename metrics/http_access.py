"""Protect HTTP servers with TLS and a login, if configured."""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import ssl
import threading
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

CHALLENGE = 'Basic realm="kafka-mirror"'  # of WWW-Authenticate, for requests without a login
REFUSAL = b"user name and password required\n"

log = logging.getLogger("mirror")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAccess:
    """TLS and login of an HTTP server; by default, it has neither.

    `certificate` and `key` are PEM files; the certificate's file may contain the key.
    """

    username: str = ""
    password: str = field(default="", repr=False)
    certificate: str = ""
    key: str = ""

    @property
    def scheme(self) -> str:
        """Scheme of the address: http, or https with a certificate."""
        return "https" if self.certificate else "http"

    @property
    def has_login(self) -> bool:
        """True if a name and a password are required."""
        return bool(self.password)

    def server_context(self) -> ssl.SSLContext | None:
        """Return the TLS context of a listener, None without a certificate.

        Each handshake uses the certificate that is in its file at that time.

        Raises:
            OSError: The files cannot be read, or are not a certificate and its key.
        """
        return _CurrentCertificate(self.certificate, self.key).listening if self.certificate else None

    def authorizes(self, authorization: str) -> bool:
        """Return whether an Authorization header (HTTP Basic) has the right login; compare in constant time."""
        if not self.has_login:
            return True
        scheme, _, encoded = authorization.partition(" ")
        try:
            given = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            return False
        return scheme.lower() == "basic" and hmac.compare_digest(given, f"{self.username}:{self.password}".encode())

    def read(self, address: str, path: str, *, timeout_s: float) -> str:
        """Read a path from this project's own server at host:port; trust only the configured certificate.

        Raises:
            OSError: The server does not respond, or refuses.
        """
        request = urllib.request.Request(f"{self.scheme}://{address}{path}")  # noqa: S310 - our own server
        if self.has_login:
            token = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
            request.add_header("Authorization", f"Basic {token}")
        with urllib.request.urlopen(request, timeout=timeout_s, context=self._client_context()) as answer:  # noqa: S310
            return str(answer.read().decode())

    def _client_context(self) -> ssl.SSLContext | None:
        if not self.certificate:
            return None
        context = ssl.create_default_context(cafile=self.certificate)
        context.check_hostname = False  # only this certificate is trusted, for any host name
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context


class _CurrentCertificate:
    """Gives each handshake of a server the certificate that its file has at that time.

    `listening` is the context of the listener.
    """

    def __init__(self, certificate: str, key: str) -> None:
        """Read the files; raises OSError if they cannot be used."""
        self._files = (certificate, key or None)
        self._lock = threading.Lock()  # handshakes may be in several threads
        self._seen = self._stamps()
        self.listening = self._current = self._read()
        # A resumed session would not show the certificate.
        self.listening.options |= ssl.OP_NO_TICKET
        self.listening.num_tickets = 0
        self.listening.sni_callback = self._renew

    def _renew(self, connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _used: ssl.SSLContext) -> None:
        """Give a handshake the current context, also if the client names no host.

        If a file has changed, read the files again. If they cannot be used, log a warning and keep the old certificate.
        """
        with self._lock:
            before, self._seen = self._seen, self._stamps()
            if before != self._seen:
                try:
                    self._current = self._read()
                    log.info("mirror.http.tls: new connections use the certificate of the changed file")
                except OSError as error:
                    log.warning("mirror.http.tls: a changed file cannot be used; the old certificate stays: %s", error)
            connection.context = self._current

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*self._files, password="")  # without an empty password, OpenSSL would prompt for one
        return context

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(file) for file in self._files if file]


def _stamp(file: str) -> tuple[int, int, int] | None:
    """Return a fingerprint of a file's version; None if the file does not exist."""
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
