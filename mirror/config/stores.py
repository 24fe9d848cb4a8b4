"""Turn key and trust stores (JKS, PKCS12, PEM) into PEM text in memory. Files are read only when asked."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from mirror.config.java_stores import Kind, entries, file_bytes, named
from mirror.config.properties import shown
from mirror.config.values import ClientError, client_text

_JAVA_TYPES = ("JKS", "PKCS12")
_INLINE: dict[Kind, tuple[str, ...]] = {
    "ssl.truststore": ("ssl.truststore.certificates",),
    "ssl.keystore": ("ssl.keystore.key", "ssl.keystore.certificate.chain"),
}
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pem:
    """PEM text of the stores; None where not configured. Never shown."""

    trusted: str | None
    chain: str | None
    key: str | None
    password: str | None  # of `key`, where that is encrypted

    def __repr__(self) -> str:
        return "Pem(***)"


def pem(java: Mapping[str, str]) -> Pem:
    """Return the trusted certificates, own chain and key; reads ssl.truststore.location and ssl.keystore.location.

    Raises:
        ClientError: A store cannot be read, its password is wrong, or it does not hold what it is for.
    """
    trusted = _trusted(java)
    if _java_type(java, "ssl.keystore"):
        own = entries(java, "ssl.keystore")
        if own.key is None:
            raise ClientError(
                "ssl.keystore.location",
                f"{named(java, 'ssl.keystore')} holds no private key, expected one with its certificates. "
                "Name the key store, not the trust store.",
            )
        return Pem(trusted=trusted, chain=own.chain, key=own.key, password=None)
    chain, key = _pem_part(java, "ssl.keystore", "certificate.chain"), _pem_part(java, "ssl.keystore", "key")
    if (chain is None) != (key is None):
        missing = "ssl.keystore.certificate.chain" if chain is None else "ssl.keystore.key"
        raise ClientError(missing, "is not set, yet its other half is. Set both, or ssl.keystore.location.")
    return Pem(trusted=trusted, chain=chain, key=key, password=client_text(java, "ssl.key.password"))


def ssl_context(java: Mapping[str, str], *, checks_host: bool) -> ssl.SSLContext:
    """Return a client context; without a truststore the system's authorities are trusted, as Java trusts the JVM's.

    Raises:
        ClientError: As in `pem`, or a certificate or key in a store cannot be used.
    """
    stores = pem(java)
    try:
        context = ssl.create_default_context(cadata=stores.trusted)
    except ssl.SSLError as error:
        key = "ssl.truststore.certificates" if java.get("ssl.truststore.certificates") else "ssl.truststore.location"
        raise ClientError(key, f"holds a certificate that cannot be read ({error.reason}). Check it.") from None
    context.check_hostname = checks_host
    if stores.chain is not None and stores.key is not None:
        key = "ssl.keystore.key" if java.get("ssl.keystore.key") else "ssl.keystore.location"
        with _as_file(stores.key + stores.chain) as path:
            try:
                context.load_cert_chain(path, password=lambda: stores.password or "")
            except (ssl.SSLError, ValueError) as error:
                reason = (error.reason if isinstance(error, ssl.SSLError) else None) or "wrong key or ssl.key.password"
                raise ClientError(key, f"cannot be used ({reason}). Check chain, key and ssl.key.password.") from None
    return context


@contextmanager
def _as_file(secret: str) -> Iterator[str]:
    """Give text a path for as long as ssl reads it, for that takes nothing else: in memory where the system can."""
    try:
        file: IO[str] = os.fdopen(os.memfd_create("pem"), "w", encoding="ascii")
        path = f"/proc/self/fd/{file.fileno()}"
    except (AttributeError, OSError):  # not Linux, or not allowed here
        file = tempfile.NamedTemporaryFile("w", encoding="ascii", suffix=".pem")  # noqa: SIM115 - 0600, closed below
        path = file.name
    with file:
        file.write(secret)
        file.flush()
        yield path


def _trusted(java: Mapping[str, str]) -> str | None:
    kind: Kind = "ssl.truststore"
    if not _java_type(java, kind):
        return _pem_part(java, kind, "certificates")
    found = entries(java, kind).trusted
    if not found:
        raise ClientError(
            f"{kind}.location", f"{named(java, kind)} holds no trusted certificate, expected one at least. Import it."
        )
    return found


def _java_type(java: Mapping[str, str], kind: Kind) -> str | None:
    """Return the declared type of a Java store, None for PEM and where no store is named."""
    location = client_text(java, f"{kind}.location")
    inline = [key for key in _INLINE[kind] if client_text(java, key)]
    if not location and not inline:
        return None
    key = f"{kind}.type"
    store_type = client_text(java, key) or "JKS"  # Java's default
    if store_type.upper() == "PEM":
        if client_text(java, f"{kind}.password"):
            advice = "Leave it out; that of an encrypted key is ssl.key.password."
            raise ClientError(f"{kind}.password", f"is set for a store of type PEM, which has none. {advice}")
        return None
    if store_type.upper() not in _JAVA_TYPES:
        choices = ", ".join((*_JAVA_TYPES, "PEM"))
        raise ClientError(key, f"{shown(java, key, store_type)} is not supported. Write one of {choices}.")
    if inline:
        found = shown(java, key, store_type)
        raise ClientError(key, f"{found} found with {inline[0]}, expected PEM. Set {key}=PEM.")
    return store_type.upper()


def _pem_part(java: Mapping[str, str], kind: Kind, part: str) -> str | None:
    """Return one part of a PEM store, given inline or as a file; a keystore file holds both chain and key."""
    inline, location = client_text(java, f"{kind}.{part}"), client_text(java, f"{kind}.location")
    if not inline and not location:
        return None
    if inline and location:
        raise ClientError(f"{kind}.location", f"and {kind}.{part} are both set. Keep one of them.")
    source = f"{kind}.{part}" if inline else f"{kind}.location"
    blocks = _blocks(inline or file_bytes(java, source).decode("ascii", "replace"))
    wanted = [block for label, block in blocks if label.endswith("PRIVATE KEY") == (part == "key")]
    if not wanted:
        what = "private key" if part == "key" else "certificate"
        raise ClientError(source, f"holds no PEM {what}. Check it, and {kind}.type.")
    return "".join(wanted)


def _blocks(pem_text: str) -> list[tuple[str, str]]:
    """Return (label, block) per PEM block, rewrapped: a properties value often holds it on one line."""
    blocks = []
    for label, body in _PEM_BLOCK.findall(pem_text):
        if ":" in body:  # an old encrypted key with headers keeps its lines
            lines = body.strip()
        else:
            packed = "".join(body.split())
            lines = "\n".join(packed[at : at + 64] for at in range(0, len(packed), 64))
        blocks.append((label, f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"))
    return blocks
