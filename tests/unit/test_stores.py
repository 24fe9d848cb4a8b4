"""Java's key stores, as keytool and others write them, become PEM text, or are refused in one line."""

from __future__ import annotations

import os
import shutil
import ssl
import tempfile

import pytest
from confluent_kafka.admin import AdminClient

from mirror.config import clients, jks, stores
from mirror.config.values import ClientError
from tests.key_stores import KEY, STORE, STORES, TRUST

ROOT, MIDDLE, CLIENT, CLIENT_KEY = (
    (STORES / f"{name}.pem").read_text() for name in ("root", "middle", "client", "client.key")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the stores of tests/data/stores, and with files that are none."""
    folder = tmp_path_factory.mktemp("stores")
    shutil.copytree(STORES, folder, dirs_exist_ok=True)
    (folder / "cut.p12").write_bytes((folder / "key.p12").read_bytes()[:-40])
    (folder / "cut.jks").write_bytes((folder / "trust.jks").read_bytes()[:-40])
    (folder / "key.jceks").write_bytes(b"\xce\xce\xce\xce\0\0\0\2")
    (folder / "text").write_text("hello")
    return folder


def java(folder, **changes):
    """Properties with both stores of type JKS; `key.jks` for `key_jks`."""
    given = {
        "bootstrap.servers": "h:1",
        "security.protocol": "SSL",
        "ssl.truststore.location": str(folder / "trust.jks"),
        "ssl.truststore.password": TRUST,
        "ssl.keystore.location": str(folder / "key.jks"),
        "ssl.keystore.password": STORE,
        "ssl.key.password": KEY,
    }
    changed = given | {name.replace("_", "."): value for name, value in changes.items()}
    return {
        name: str(folder / value) if name.endswith("location") and "/" not in value else value
        for name, value in changed.items()
        if value is not None
    }


@pytest.mark.parametrize("kind", [None, "JKS", "PKCS12"])
@pytest.mark.parametrize("suffix", ["jks", "p12"])
def test_stores_are_read_as_what_they_are_whatever_java_type_is_written(folder, suffix, kind):
    """Java's two types both read both, and keytool writes PKCS12 where people say JKS."""
    given = java(
        folder,
        ssl_truststore_location=f"trust.{suffix}",
        ssl_keystore_location=f"key.{suffix}",
        ssl_truststore_type=kind,
        ssl_keystore_type=kind,
    )
    found = stores.pem(given)
    assert found.key == CLIENT_KEY
    assert found.chain == CLIENT + MIDDLE
    assert found.trusted == {"jks": ROOT, "p12": ROOT + MIDDLE}[suffix]
    assert found.password is None
    context = clients.client_options(given).tls
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    AdminClient(clients.confluent_options(given))


def test_a_truststore_needs_no_password_where_java_needs_none(folder):
    assert stores.pem(java(folder, ssl_truststore_password=None)).trusted == ROOT


def test_the_password_of_a_jks_key_is_the_stores_unless_it_has_its_own(folder):
    given = java(folder, ssl_keystore_location="same.jks", ssl_key_password=None)
    assert stores.pem(given).key == CLIENT_KEY


def trusts(**changes):
    """Changes of the trust store's properties."""
    return {f"ssl_truststore_{name}": value for name, value in changes.items()}


def keys(**changes):
    """Changes of the key store's properties."""
    return {f"ssl_keystore_{name}": value for name, value in changes.items()}


@pytest.mark.parametrize(
    ("changes", "key", "named"),
    [
        (trusts(password="hunter2"), "ssl.truststore.password", 'does not open "'),
        (keys(password="hunter2"), "ssl.keystore.password", 'does not open "'),
        ({"ssl_key_password": "hunter2"}, "ssl.key.password", "the password of its key is wrong"),
        (keys(location="key.p12", password="hunter2"), "ssl.keystore.password", "is wrong"),
        (keys(password=None), "ssl.keystore.password", "is not set, yet ssl.keystore.location names"),
        (trusts(location="absent.jks"), "ssl.truststore.location", "(No such file or directory)"),
        (keys(location="/"), "ssl.keystore.location", "(Is a directory)"),
        (keys(location="trust.jks", password=TRUST), "ssl.keystore.location", "no private key"),
        (keys(location="trust.p12", password=TRUST), "ssl.keystore.location", "no private key"),
        (keys(location="both.p12"), "ssl.keystore.location", "holds 2 private keys, expected one"),
        (keys(location="key.jceks"), "ssl.keystore.location", "is a JCEKS store, expected JKS or PKCS12"),
        (keys(location="text"), "ssl.keystore.location", "is no key store, expected JKS or PKCS12"),
        (keys(location="cut.p12"), "ssl.keystore.location", "it is damaged"),
        (trusts(location="cut.jks", password=None), "ssl.truststore.location", "too early"),
        (trusts(location="root.pem"), "ssl.truststore.location", "Set ssl.truststore.type=PEM."),
        (trusts(type="PEM"), "ssl.truststore.password", "is set for a store of type PEM"),
        (trusts(type="PEM", password=None), "ssl.truststore.location", "and ssl.truststore.type"),
        (keys(type="BCFKS"), "ssl.keystore.type", '"BCFKS" is not supported. Write one of JKS, PKCS12, PEM.'),
        (trusts(certificates="x"), "ssl.truststore.type", '"JKS" found with ssl.truststore.certificates'),
    ],
)
def test_an_unreadable_store_is_refused_in_one_line_without_secrets(folder, changes, key, named):
    for translate in (clients.client_options, clients.confluent_options):
        with pytest.raises(ClientError) as caught:
            translate(java(folder, **changes))
        assert caught.value.key == key
        assert named in str(caught.value)
        assert "hunter2" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_certificate_of_a_key_entry_is_not_a_trusted_authority(folder):
    """As in Java: of a key's entry the own certificate at most."""
    for name in ("key.jks", "key.p12"):
        given = java(folder, ssl_truststore_location=name, ssl_truststore_password=STORE)
        assert stores.pem(given).trusted == CLIENT


def test_a_key_is_never_in_a_file(folder, monkeypatch):
    """OpenSSL takes a path only; it is one into memory."""
    if not hasattr(os, "memfd_create"):
        pytest.skip("Linux only")
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", None)
    clients.client_options(java(folder))


def test_without_memory_files_a_key_is_in_a_private_file_that_is_removed(folder, monkeypatch, tmp_path):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with stores._as_file("secret") as path:
        assert os.stat(path).st_mode & 0o777 == 0o600  # noqa: PTH116
    assert list(tmp_path.iterdir()) == []
    clients.client_options(java(folder))
    assert list(tmp_path.iterdir()) == []


def test_nothing_shows_a_key(folder):
    found = stores.pem(java(folder))
    assert repr(found) == "Pem(***)"


@pytest.mark.parametrize("cut", range(4, 60, 5))
def test_a_jks_that_is_cut_or_garbled_is_refused_wherever_it_happens(folder, cut):
    data = (folder / "key.jks").read_bytes()
    with pytest.raises(jks.JksError):
        jks.read(data[:-cut], STORE)
    garbled = bytearray(data)
    garbled[-cut - 40] ^= 1
    with pytest.raises(jks.JksError):
        jks.read(bytes(garbled), STORE)
