"""Authorities, certificates and key stores for tests, made again each time. None is worth anything."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

KEYTOOL = "keytool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A key, its certificate, and the certificates above it but for the root."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    above: tuple[x509.Certificate, ...] = ()

    @property
    def pem(self) -> str:
        """The certificate."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def chain_pem(self) -> str:
        return "".join(each.public_bytes(Encoding.PEM).decode() for each in (self.certificate, *self.above))

    @property
    def key_pem(self) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def pkcs12(self, path: Path, password: str, *, name: str = "me") -> Path:
        """Write key and chain as a PKCS12 store."""
        lock = BestAvailableEncryption(password.encode())
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(name.encode(), self.key, self.certificate, self.above, lock)
        )
        return path

    def jks(self, path: Path, password: str, *, key_password: str | None = None) -> Path:
        """Write key and chain as a JKS store, by Java's own tool."""
        source = self.pkcs12(path.with_suffix(".source"), password)
        keytool(
            "-importkeystore",
            *("-srckeystore", source, "-srcstoretype", "PKCS12", "-srcstorepass", password, "-srcalias", "me"),
            *("-destkeystore", path, "-deststoretype", "JKS", "-deststorepass", password),
            *("-destkeypass", key_password or password),
        )
        source.unlink()
        return path


def identity(
    name: str, *, by: Identity | None = None, hosts: tuple[str, ...] = (), days: int = 2, is_authority: bool = False
) -> Identity:
    """Make a key with a certificate signed `by` another, or by itself; `days` below 0 ended so long ago."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.certificate.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    names = [x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host) for host in hosts]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(by.key if by else key, hashes.SHA256())
    above = (by.certificate, *by.above) if by and by.certificate.issuer != by.certificate.subject else ()
    return Identity(key=key, certificate=certificate, above=above)


def truststore(path: Path, kind: str, password: str, *authorities: Identity) -> Path:
    """Write a store of trusted certificates, by Java's own tool."""
    for at, authority in enumerate(authorities):
        file = path.with_suffix(f".{at}.pem")
        file.write_text(authority.pem)
        keytool(
            *("-importcert", "-noprompt", "-file", file, "-alias", f"ca{at}"),
            *("-keystore", path, "-storetype", kind, "-storepass", password),
        )
        file.unlink()
    return path


def keytool(*arguments: object) -> None:
    """Run Java's keytool."""
    done = subprocess.run([KEYTOOL, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
