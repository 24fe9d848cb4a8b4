"""Read key stores of type JKS and PKCS12 into PEM text in memory."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mirror.config import jks
from mirror.config.properties import is_provided, shown
from mirror.config.values import ClientError, client_text

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

Kind = Literal["ssl.truststore", "ssl.keystore"]

_JCEKS = b"\xce\xce\xce\xce"
_DER_SEQUENCE = b"\x30"  # what PKCS12 starts with
_KEY_BAGS = (bytes.fromhex("060b2a864886f70d010c0a0101"), bytes.fromhex("060b2a864886f70d010c0a0102"))  # plain, sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """What a Java store holds: PEM text of the one key with its chain, and of the certificates it trusts."""

    key: str | None = field(repr=False)
    chain: str
    trusted: str


def entries(java: Mapping[str, str], kind: Kind) -> Entries:
    """Read a store as what it is: Java takes a PKCS12 for a JKS and the other way round.

    Raises:
        ClientError: It cannot be read, its password or that of its key is wrong, or it holds several keys.
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
    trusted = _certificates((*store.certificates, *leaves))  # Java trusts the own certificate of a key as well
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
    # Here, for it is 8 MiB in each process of an appliance, and few flows have such a store.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    try:
        store = pkcs12.load_pkcs12(data, password.encode() if password else None)
    except UnsupportedAlgorithm:
        raise _refused(java, f"{kind}.location", kind, "it is encrypted in a way that is not supported") from None
    except (ValueError, TypeError) as error:
        is_password = "password" in str(error).lower()  # the only way it tells them apart
        reason = "its password is another one, or it is damaged" if is_password else "it is damaged"
        raise _refused(java, f"{kind}.password" if is_password else f"{kind}.location", kind, reason) from None
    own = [store.cert] if store.cert else []
    if kind == "ssl.keystore":
        _refuse_several(java, sum(data.count(bag) for bag in _KEY_BAGS))
    # Java names the other certificates of a key's chain by their subjects, and does not trust them for that.
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
    """Return the first certificate and those above it, each behind the one that it signed: a store has no order."""
    chain, others = certificates[:1], certificates[1:]
    while above := next((each for each in others if each.subject == chain[-1].issuer), None):
        chain.append(above)
        others.remove(above)
    return chain


def _refuse_several(java: Mapping[str, str], keys: int) -> None:
    if keys > 1:
        raise ClientError(
            "ssl.keystore.location",
            f"{named(java, 'ssl.keystore')} holds {keys} private keys, expected one, for nothing says which. "
            "Copy the one to use into a store of its own (keytool -importkeystore -srcalias).",
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
    """Return the content of the file that `key` names; ClientError where it cannot be read."""
    location = client_text(java, key) or ""
    try:
        return Path(location).read_bytes()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        found = shown(java, key, location)
        raise ClientError(key, f"{found} cannot be read ({reason}). Check path and rights.") from None
