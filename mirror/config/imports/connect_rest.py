"""Request the connectors of a running Kafka Connect over its REST API."""

from __future__ import annotations

import base64
import json
import ssl
import time
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from mirror.config.imports.connectors import Connectors
from mirror.config.imports.documents import expanded
from mirror.errors import ClusterUnavailable, SettingsError

BOUND_S = 10.0  # limit for the whole response
LARGEST_ANSWER = 64 << 20  # bytes; the settings of one connector have some kilobytes
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The access to Connect: a login, and the trusted certificate authorities."""

    user: str = ""
    password: str = field(default="", repr=False)
    authorities: Path | None = None  # a PEM file; None for the system's authorities


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: a redirect would send the login to another address."""

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str) -> None:
        """Return no request to follow."""


def is_address(source: str) -> bool:
    """Return whether a source is the address of a Connect cluster, not a file."""
    return source.startswith(("http://", "https://"))


def read_connect(address: str, access: Access, *, bound_s: float = BOUND_S) -> Connectors:
    """Return the connectors of a running Connect cluster.

    Raises:
        SettingsError: the address or the login is refused, or the server is not Kafka Connect.
        ClusterUnavailable: no response in time.
    """
    where, url = _address(address)
    try:
        body = _get(url, where, access, bound_s)
        return expanded(json.loads(body), where)
    except HTTPError as error:
        error.close()
        raise _refused(where, error.code, access) from None
    except ssl.SSLError as error:
        raise _untrusted(where, error) from None
    except URLError as error:
        if isinstance(error.reason, ssl.SSLError):
            raise _untrusted(where, error.reason) from None
        raise _silent(where, error.reason, bound_s) from None
    except (OSError, HTTPException) as error:
        raise _silent(where, error, bound_s) from None
    except ValueError:
        raise SettingsError(
            f"{where}: responds with something else than JSON; expected Kafka Connect. Check it."
        ) from None


def _address(address: str) -> tuple[str, str]:
    """Return the address for messages, and the address for requests."""
    try:
        parts = urlsplit(address)
        host, login = parts.hostname, parts.username or parts.password
        _ = parts.port
    except ValueError:
        host, login = None, None
    if login is not None:
        raise SettingsError("import: the address contains a login. Give --user, and the password as --help explains.")
    if not host:
        raise SettingsError(f'import: "{address}" is not the address of a Connect. Write http://HOST:8083.')
    base = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
    return base, f"{base}/connectors?expand=info&expand=status"


def _get(url: str, where: str, access: Access, bound_s: float) -> bytes:
    until = time.monotonic() + bound_s
    request = Request(url, headers={"Accept": "application/json"})  # noqa: S310 - only http and https
    if access.user:
        login = base64.b64encode(f"{access.user}:{access.password}".encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {login}")
    opener = build_opener(_NoRedirects, HTTPSHandler(context=_context(access)))
    pieces, size = [], 0
    with opener.open(request, timeout=bound_s) as answer:
        while piece := answer.read1(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if time.monotonic() > until:
                raise TimeoutError
            if size > LARGEST_ANSWER:
                raise SettingsError(f"{where}: responds with more than {LARGEST_ANSWER >> 20} MiB. Check the address.")
    return b"".join(pieces)


def _context(access: Access) -> ssl.SSLContext:
    if access.authorities is None:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=access.authorities)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise SettingsError(f"--cacert: {access.authorities} cannot be used ({reason}). Name a PEM file.") from None


def _refused(where: str, code: int, access: Access) -> SettingsError:
    if code in (401, 403):
        advice = (
            "Check --user and the password." if access.user else "Give --user, and the password as --help explains."
        )
        return SettingsError(f"{where}: refuses the login (HTTP {code}). {advice}")
    return SettingsError(
        f"{where}: responds to GET /connectors with HTTP {code}; expected Kafka Connect. Check the address."
    )


def _untrusted(where: str, error: ssl.SSLError) -> SettingsError:
    reason = getattr(error, "verify_message", "") or error.reason or "no TLS"
    return SettingsError(
        f"{where}: TLS is not possible ({reason}). Check http or https, or name its authority with --cacert."
    )


def _silent(where: str, reason: object, bound_s: float) -> ClusterUnavailable:
    is_slow = isinstance(reason, TimeoutError)
    why = f"not within {bound_s:g} s" if is_slow else getattr(reason, "strerror", None) or str(reason) or "closed"
    return ClusterUnavailable(f"{where}: does not respond ({why}). Check the address, and that Connect runs.")
