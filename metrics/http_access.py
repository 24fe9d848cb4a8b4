"""Protect HTTP servers by TLS and a login, if they are configured."""

from __future__ import annotations

import base64
import binascii
import hmac
import ssl
import urllib.request
from dataclasses import dataclass, field

CHALLENGE = 'Basic realm="kafka-mirror"'  # of WWW-Authenticate, for requests without a login
REFUSAL = b"user name and password required\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAccess:
    """TLS and login of an HTTP server; neither by default.

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
        """Whether a name and a password are required."""
        return bool(self.password)

    def server_context(self) -> ssl.SSLContext | None:
        """Return the TLS context of a server, None without a certificate.

        Raises:
            OSError: The files cannot be read, or are not a certificate and its key.
        """
        if not self.certificate:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key or None)
        return context

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
        """Read a path of this project's own server at host:port, trusting only its certificate.

        Raises:
            OSError: The server does not respond.
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
