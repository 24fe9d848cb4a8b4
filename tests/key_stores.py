"""Name the key stores of tests/data/stores, and write them again with Java's keytool: python -m tests.key_stores.

They are kept as files because each run of keytool takes a JVM. No key of them is used anywhere else.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.certificates import identity, keytool, truststore

STORES = Path(__file__).parent / "data" / "stores"
STORE, KEY, TRUST = "hunter2-store", "hunter2-key", "hunter2-trust"  # passwords: of a key store, its key, a trust store
DOCUMENTED = "my-secret-password"  # of the stores with the names of Kafka's documentation
FOR_EVER_DAYS = 36_500


def main() -> None:
    """Write all files: three identities as PEM text, and stores of them as JKS and PKCS12."""
    shutil.rmtree(STORES, ignore_errors=True)
    STORES.mkdir(parents=True)
    root = identity("root", is_authority=True, days=FOR_EVER_DAYS)
    middle = identity("middle", by=root, is_authority=True, days=FOR_EVER_DAYS)
    client = identity("client", by=middle, days=FOR_EVER_DAYS)
    for name, each in (("root", root), ("middle", middle), ("client", client)):
        (STORES / f"{name}.pem").write_text(each.pem)
    (STORES / "client.key.pem").write_text(client.key_pem)
    client.jks(STORES / "key.jks", STORE, key_password=KEY)
    client.jks(STORES / "same.jks", STORE)
    client.pkcs12(STORES / "key.p12", STORE)
    truststore(STORES / "trust.jks", "JKS", TRUST, root)
    truststore(STORES / "trust.p12", "PKCS12", TRUST, root, middle)
    shutil.copy(STORES / "key.p12", STORES / "both.p12")
    keytool(
        *("-genkeypair", "-keyalg", "EC", "-alias", "other", "-dname", "CN=other", "-validity", FOR_EVER_DAYS),
        *("-keystore", STORES / "both.p12", "-storepass", STORE),
    )
    truststore(STORES / "truststore.jks", "JKS", DOCUMENTED, root)
    client.jks(STORES / "keystore.jks", DOCUMENTED)


if __name__ == "__main__":
    main()
