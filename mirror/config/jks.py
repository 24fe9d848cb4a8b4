"""Read a Java key store of type JKS. Pure: bytes in, entries out.

No library is used: pyjks needs a C compiler at each installation, for a cipher of other store types.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

MAGIC = b"\xfe\xed\xfe\xed"
_VERSIONS = (1, 2)  # in version 1, certificates have no type
_KEY, _CERTIFICATE = 1, 2
_SALT_BYTES = _DIGEST_BYTES = 20
_WHITENER = b"Mighty Aphrodite"
_KEY_PROTECTOR = bytes.fromhex("060a2b060104012a02110101")  # OID 1.3.6.1.4.1.42.2.17.1.1 of Sun's key protector


class JksError(Exception):
    """A store that cannot be read; `is_password` if the password seems to be wrong."""

    def __init__(self, message: str, *, is_password: bool = False) -> None:
        super().__init__(message)
        self.is_password = is_password


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEntry:
    """An encrypted private key and its certificate chain (DER), the key's certificate first."""

    protected: bytes = field(repr=False)
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Jks:
    """The content of a store, in order."""

    keys: tuple[KeyEntry, ...]
    certificates: tuple[bytes, ...]  # trusted ones, DER


def read(data: bytes, password: str | None) -> Jks:
    """Return the entries of a store. Without a password, its integrity is not checked, as in Java.

    Raises:
        JksError: The store is damaged, or the password is wrong.

    Source: sun.security.provider.JavaKeyStore (engineLoad).
    """
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        found = hashlib.sha1(_utf16(password) + _WHITENER + body).digest()  # noqa: S324 - the format's own digest
        if not hmac.compare_digest(found, digest):
            raise JksError("its password is wrong, or it is damaged", is_password=True)
    reader = _Reader(body)
    keys, certificates = [], []
    try:
        magic, version, count = reader.taken(4), reader.number(">I"), reader.number(">I")
        if magic != MAGIC or version not in _VERSIONS:
            raise JksError(f"it has version {version}, expected 1 or 2")
        for _ in range(count):
            tag = reader.number(">I")
            reader.sized(">H")  # alias
            reader.number(">Q")  # creation time
            if tag == _KEY:
                protected, length = reader.sized(">I"), reader.number(">I")
                chain = tuple(reader.certificate(version) for _ in range(length))
                keys.append(KeyEntry(protected=protected, chain=chain))
            elif tag == _CERTIFICATE:
                certificates.append(reader.certificate(version))
            else:
                raise JksError(f"it has an entry of kind {tag}, expected 1 or 2")
    except struct.error:
        raise JksError("it ends too early") from None
    return Jks(keys=tuple(keys), certificates=tuple(certificates))


def private_key(entry: KeyEntry, password: str) -> bytes:
    """Return the decrypted key as PKCS #8 DER.

    Raises:
        JksError: The password of the key is wrong, or the key is damaged.

    Source: sun.security.provider.KeyProtector (recover).
    """
    sealed = _sealed(entry.protected)
    salt, digest = sealed[:_SALT_BYTES], sealed[-_DIGEST_BYTES:]
    secret, stream = _utf16(password), salt
    clear = bytearray(sealed[_SALT_BYTES:-_DIGEST_BYTES])
    for start in range(0, len(clear), _DIGEST_BYTES):
        stream = hashlib.sha1(secret + stream).digest()  # noqa: S324 - the format's own cipher
        part = clear[start : start + _DIGEST_BYTES]
        clear[start : start + _DIGEST_BYTES] = bytes(a ^ b for a, b in zip(part, stream, strict=False))
    found = hashlib.sha1(secret + clear).digest()  # noqa: S324 - the format's own digest
    if not hmac.compare_digest(found, digest):
        raise JksError("the password of its key is wrong, or the key is damaged", is_password=True)
    return bytes(clear)


def _sealed(protected: bytes) -> bytes:
    """Return salt, cipher text and digest from an EncryptedPrivateKeyInfo (DER)."""
    try:
        _, inside, _ = _der(protected)
        _, algorithm, rest = _der(inside)
        tag, sealed, _ = _der(rest)
    except IndexError:
        raise JksError("its key is damaged") from None
    if not algorithm.startswith(_KEY_PROTECTOR) or tag != 0x04 or len(sealed) < _SALT_BYTES + _DIGEST_BYTES:
        raise JksError("its key is protected in a way that JKS does not know")
    return sealed


def _der(data: bytes) -> tuple[int, bytes, bytes]:
    """Return tag and content of the first DER element, and the rest of the data."""
    tag, length, start = data[0], data[1], 2
    if length & 0x80:
        start = 2 + (length & 0x7F)
        length = int.from_bytes(data[2:start], "big")
    return tag, data[start : start + length], data[start + length :]


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")


class _Reader:
    """Reads values from the start of a byte string; raises struct.error if bytes are missing."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, shape: str) -> int:
        (found,) = struct.unpack_from(shape, self._data, self._at)
        self._at += struct.calcsize(shape)
        return int(found)

    def taken(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            raise struct.error
        self._at += count
        return self._data[self._at - count : self._at]

    def sized(self, shape: str) -> bytes:
        return self.taken(self.number(shape))

    def certificate(self, version: int) -> bytes:
        if version > 1:
            self.sized(">H")  # its type, always X.509
        return self.sized(">I")
