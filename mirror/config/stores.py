"""Convert key and trust stores (JKS, PKCS12, PEM) into PEM text in memory.

Files are read only on demand.
"""

from __future__ import annotations

import base64
import os
import re
import ssl
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

from mirror.config import jks
from mirror.config.properties import is_provided, shown
from mirror.config.values import ClientError, client_text

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

Kind = Literal["ssl.truststore", "ssl.keystore"]

_JCEKS = b"\xce\xce\xce\xce"
_DER_SEQUENCE = b"\x30"  # the first byte of a PKCS12 store
_KEY_BAGS = (bytes.fromhex("060b2a864886f70d010c0a0101"), bytes.fromhex("060b2a864886f70d010c0a0102"))  # plain, sealed
_JAVA_TYPES = ("JKS", "PKCS12")
_INLINE: dict[Kind, tuple[str, ...]] = {
    "ssl.truststore": ("ssl.truststore.certificates",),
    "ssl.keystore": ("ssl.keystore.key", "ssl.keystore.certificate.chain"),
}
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """The content of a Java store as PEM: the only key with its chain, and the trusted certificates."""

    key: str | None = field(repr=False)
    chain: str
    trusted: str


def entries(java: Mapping[str, str], kind: Kind) -> Entries:
    """Read a store by its real type: Java accepts a PKCS12 as JKS, and vice versa.

    Raises:
        ClientError: The store cannot be read, its password or its key's password is wrong, or it has several keys.
    """
    where, password = f"{kind}.location", client_text(java, f"{kind}.password")
    data = file_bytes(java, where)
    if kind == "ssl.keystore" and not password:
        raise ClientError(f"{kind}.password", f"is not set, yet {where} names a store of keys. Set it.")
    if data.startswith(jks.MAGIC):
        return _jks(java, kind, data, password)
    if data.startswith(_DER_SEQUENCE):
        return _pkcs12(java, kind, data, password)
    if b"-----BEGIN " in data:
        raise ClientError(where, f"{named(java, kind)} is a PEM file, expected JKS or PKCS12. Set {kind}.type=PEM.")
    what = "a JCEKS store" if data.startswith(_JCEKS) else "no key store"
    raise ClientError(where, f"{named(java, kind)} is {what}, expected JKS or PKCS12. Convert it with keytool.")


def _jks(java: Mapping[str, str], kind: Kind, data: bytes, password: str | None) -> Entries:
    where = f"{kind}.location"
    try:
        store = jks.read(data, password or None)
    except jks.JksError as error:
        raise _refused(java, f"{kind}.password" if error.is_password else where, kind, str(error)) from None
    leaves = [entry.chain[0] for entry in store.keys if entry.chain]
    trusted = _certificates((*store.certificates, *leaves))  # Java also trusts a key's own certificate
    if kind == "ssl.truststore" or not store.keys:
        return Entries(key=None, chain="", trusted=trusted)
    _refuse_several(java, len(store.keys))
    (entry,) = store.keys
    key_password = client_text(java, "ssl.key.password")
    try:
        clear = jks.private_key(entry, key_password or password or "")
    except jks.JksError as error:
        at_fault = "ssl.key.password" if error.is_password else where
        raise _refused(java, at_fault, kind, str(error)) from None
    return Entries(key=_block("PRIVATE KEY", clear), chain=_certificates(entry.chain), trusted=trusted)


def _pkcs12(java: Mapping[str, str], kind: Kind, data: bytes, password: str | None) -> Entries:
    # Imported here: the library takes 8 MiB in each process, and few flows have such a store.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    try:
        store = pkcs12.load_pkcs12(data, password.encode() if password else None)
    except UnsupportedAlgorithm:
        raise _refused(java, f"{kind}.location", kind, "it is encrypted in a way that is not supported") from None
    except (ValueError, TypeError) as error:
        is_password = "password" in str(error).lower()  # only the text distinguishes the two causes
        reason = "its password is wrong, or it is damaged" if is_password else "it is damaged"
        raise _refused(java, f"{kind}.password" if is_password else f"{kind}.location", kind, reason) from None
    own = [store.cert] if store.cert else []
    if kind == "ssl.keystore":
        _refuse_several(java, sum(data.count(bag) for bag in _KEY_BAGS))
    # Java lists the other certificates of a key's chain by their subjects, and does not trust them because of that.
    trusted = [
        each
        for each in (*own, *store.additional_certs)
        if store.key is None or each is store.cert or (each.friendly_name and b"=" not in each.friendly_name)
    ]
    key = None
    if store.key is not None:
        key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    chain = _chain([each.certificate for each in (*own, *store.additional_certs)]) if own else []
    return Entries(
        key=key if own else None,
        chain=_certificates(each.public_bytes(Encoding.DER) for each in chain),
        trusted=_certificates(each.certificate.public_bytes(Encoding.DER) for each in trusted),
    )


def _chain(certificates: list[Certificate]) -> list[Certificate]:
    """Return the first certificate, then its issuers in order, which a store lacks."""
    chain, others = certificates[:1], certificates[1:]
    while above := next((each for each in others if each.subject == chain[-1].issuer), None):
        chain.append(above)
        others.remove(above)
    return chain


def _refuse_several(java: Mapping[str, str], keys: int) -> None:
    if keys > 1:
        raise ClientError(
            "ssl.keystore.location",
            f"{named(java, 'ssl.keystore')} holds {keys} private keys, expected one. "
            "Copy the one to use into a separate store (keytool -importkeystore -srcalias).",
        )


def _refused(java: Mapping[str, str], key: str, kind: Kind, reason: str) -> ClientError:
    if key.endswith("password"):
        return ClientError(key, f"does not open {named(java, kind)} ({reason}). Check the password and the file.")
    return ClientError(key, f"{named(java, kind)} cannot be read ({reason}). Check the file, or make a new one.")


def named(java: Mapping[str, str], kind: Kind) -> str:
    """Return the store's path for a message."""
    key = f"{kind}.location"
    return "the store" if is_provided(java, key) else shown(java, key, client_text(java, key) or "")


def _block(label: str, der: bytes) -> str:
    packed = base64.b64encode(der).decode()
    return "\n".join((f"-----BEGIN {label}-----", *textwrap.wrap(packed, 64), f"-----END {label}-----", ""))


def _certificates(ders: Iterable[bytes]) -> str:
    return "".join(_block("CERTIFICATE", der) for der in ders)


def file_bytes(java: Mapping[str, str], key: str) -> bytes:
    """Return the content of the file that `key` names; raises ClientError if unreadable."""
    location = client_text(java, key) or ""
    try:
        return Path(location).read_bytes()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        found = shown(java, key, location)
        raise ClientError(key, f"{found} cannot be read ({reason}). Check path and rights.") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pem:
    """PEM text of the stores; None if not configured. It is never shown."""

    trusted: str | None
    chain: str | None
    key: str | None
    password: str | None  # of `key`, if it is encrypted

    def __repr__(self) -> str:
        return "Pem(***)"


def pem(java: Mapping[str, str]) -> Pem:
    """Return the trusted certificates, own chain and key; reads ssl.truststore.location and ssl.keystore.location.

    Raises:
        ClientError: A store cannot be read, its password is wrong, or it lacks the content that it is for.
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
        raise ClientError(missing, "is not set, but its counterpart is. Set both, or ssl.keystore.location.")
    return Pem(trusted=trusted, chain=chain, key=key, password=client_text(java, "ssl.key.password"))


def ssl_context(java: Mapping[str, str], *, checks_host: bool) -> ssl.SSLContext:
    """Return a client context. Without a truststore, the system's authorities are trusted.

    Java trusts the JVM's authorities instead.

    Raises:
        ClientError: As in `pem`, or a certificate or key of a store cannot be used.
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
    """Write a secret to a temporary file for ssl, in memory if the system allows."""
    try:
        file: IO[str] = os.fdopen(os.memfd_create("pem"), "w", encoding="ascii")
        path = f"/proc/self/fd/{file.fileno()}"
    except (AttributeError, OSError):  # not Linux, or not permitted
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
    """Return the declared type of a Java store; None for PEM, or without a store."""
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
    """Return one part of a PEM store, inline or from a file. A key store file has both chain and key."""
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
    """Return (label, block) per PEM block, rewrapped: a value in a properties file often has it on one line."""
    blocks = []
    for label, body in _PEM_BLOCK.findall(pem_text):
        if ":" in body:  # an old-format encrypted key with headers keeps its line breaks
            lines = body.strip()
        else:
            packed = "".join(body.split())
            lines = "\n".join(packed[at : at + 64] for at in range(0, len(packed), 64))
        blocks.append((label, f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"))
    return blocks
