"""Kerberos (GSSAPI): a whole flow with tickets of a real key distribution center, from a keytab and from a ticket cache."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirror.embedded.broker import Broker
from mirror.embedded.ports import HOST, free_port
from mirror.errors import ClusterUnavailable
from mirror.kafka.cluster import Cluster
from tests.certificates import Identity, identity
from tests.integration.appliance import RunningAppliance
from tests.integration.records import await_replicated, create, differences, load
from tests.integration.test_security import EVERYTHING, lines, round_trip
from tests.kdc import REALM, Kdc, needs_kerberos
from tests.waiting import eventually

pytestmark = [pytest.mark.kafka, needs_kerberos]

TICKET_S = 15  # so that tickets run out while records flow
REAUTH_MS = "8000"  # and brokers end connections whose login is as old (KIP-368)
KRB5 = "com.sun.security.auth.module.Krb5LoginModule"


@dataclass(frozen=True)
class Kerberized:
    """A broker with a plain listener, for the test itself, and one that wants tickets."""

    broker: Broker
    port: int
    protocol: str

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    def java(self, *, jaas: str) -> dict[str, str]:
        """Client properties."""
        return {
            "bootstrap.servers": f"{HOST}:{self.port}",
            "security.protocol": self.protocol,
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": f"{KRB5} required {jaas};",
        }


@pytest.fixture(scope="module")
def root() -> Identity:
    return identity("root", is_authority=True)


@pytest.fixture(scope="module")
def kdc(tmp_path_factory) -> Iterator[Kdc]:
    folder = tmp_path_factory.mktemp("kdc")
    with Kdc(folder) as running, pytest.MonkeyPatch.context() as environment:
        environment.setenv("KRB5_CONFIG", str(running.config))
        yield running


@pytest.fixture(scope="module")
def service(kdc) -> Path:
    """The keys of both brokers, which run on one host."""
    return kdc.keytab(f"kafka/{HOST}")


@pytest.fixture(scope="module")
def keytab(kdc) -> str:
    """What sasl.jaas.config says of the mirror's own keys."""
    return f'useKeyTab=true storeKey=true keyTab="{kdc.keytab("mirror", life_s=TICKET_S)}" principal="mirror@{REALM}"'


@contextmanager
def kerberized(name: str, folder: Path, kdc: Kdc, service: Path, protocol: str, root: Identity) -> Iterator[Kerberized]:
    port = free_port()
    known = identity("broker", by=root, hosts=(HOST,))
    jaas = f'{KRB5} required useKeyTab=true storeKey=true keyTab="{service}" principal="kafka/{HOST}@{REALM}";'
    overrides = {
        "listeners": f"TICKET://{HOST}:{port}",
        "advertised.listeners": f"TICKET://{HOST}:{port}",
        "listener.security.protocol.map": f"TICKET:{protocol}",
        "listener.name.ticket.sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.ticket.gssapi.sasl.jaas.config": jaas,
        "listener.name.ticket.connections.max.reauth.ms": REAUTH_MS,
        "sasl.kerberos.service.name": "kafka",
        "listener.name.ticket.ssl.keystore.type": "PEM",
        "listener.name.ticket.ssl.keystore.key": known.key_pem.replace("\n", " "),
        "listener.name.ticket.ssl.keystore.certificate.chain": known.chain_pem.replace("\n", " "),
    }
    options = [f"-Djava.security.krb5.conf={kdc.config}"]
    with Broker.start(name, folder, overrides=overrides, jvm_options=options) as broker:
        yield Kerberized(broker, port, protocol)


@pytest.fixture(scope="module")
def primary(kdc, service, root, tmp_path_factory) -> Iterator[Kerberized]:
    folder = tmp_path_factory.mktemp("primary")
    with kerberized("primary", folder, kdc, service, "SASL_PLAINTEXT", root) as running:
        yield running


@pytest.fixture(scope="module")
def backup(kdc, service, root, tmp_path_factory) -> Iterator[Kerberized]:
    folder = tmp_path_factory.mktemp("backup")
    with kerberized("backup", folder, kdc, service, "SASL_SSL", root) as running:
        yield running


@pytest.fixture(scope="module")
def trust(root, tmp_path_factory) -> dict[str, str]:
    path = tmp_path_factory.mktemp("trust") / "trust.pem"
    path.write_text(root.pem)
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(path)}


def test_both_clients_get_in_with_a_keytab(primary, keytab, topic):
    java = primary.java(jaas=keytab)
    create(primary, topic)
    assert topic in Cluster("primary", java).topics()
    assert asyncio.run(round_trip(java, topic)) == [b"there"]


def test_both_clients_get_in_with_a_ticket_cache_within_tls(backup, kdc, trust, topic, tmp_path):
    import gssapi

    keys = kdc.keytab("person")
    who = gssapi.Name(f"person@{REALM}", gssapi.NameType.kerberos_principal)
    found = gssapi.Credentials(
        name=who, usage="initiate", store={"client_keytab": str(keys), "ccache": "MEMORY:person"}
    )
    found.inquire()
    context = gssapi.SecurityContext(
        name=gssapi.Name(f"kafka@{HOST}", gssapi.NameType.hostbased_service), creds=found, usage="initiate"
    )
    context.step()  # asks for the first ticket
    found.store(store={"ccache": f"FILE:{tmp_path / 'cache'}"}, usage="initiate", overwrite=True, set_default=True)
    java = backup.java(jaas=f'useTicketCache=true ticketCache="{tmp_path / "cache"}"') | trust
    create(backup, topic)
    assert topic in Cluster("backup", java).topics()
    assert asyncio.run(round_trip(java, topic)) == [b"there"]


@pytest.mark.nightly
def test_a_flow_with_tickets_that_run_out_keeps_every_record(primary, backup, kdc, keytab, trust, topic, tmp_path):
    """Heartbeats, checkpoints, groups, settings and the lease all go by the control plane's client, through the relay."""
    create(primary, topic, 2)
    appliance = RunningAppliance(
        tmp_path,
        primary=f"{HOST}:{primary.port}",
        backup=f"{HOST}:{backup.port}",
        topics=topic,
        extra=EVERYTHING + lines(primary=primary.java(jaas=keytab), backup=backup.java(jaas=keytab) | trust),
    )
    with appliance:
        with load(primary, topic):
            before = kdc.logins("mirror")
            eventually(
                lambda: kdc.logins("mirror") > before + 4,
                within_s=120,
                because="tickets run out in the driver and in the workers, and others are asked for",
            )
        for partition in (0, 1):
            await_replicated(appliance, primary, topic, f"primary.{topic}", partition)
        assert differences(primary, backup, topic, f"primary.{topic}") == []
        eventually(
            lambda: "kafka_mirror_last_heartbeat_timestamp_seconds{" in appliance.exposition(),
            within_s=30,
            because="heartbeats are written too",
        )
    log = appliance.log.read_text()
    assert "Traceback" not in log
    assert " ERROR " not in log
    assert "no answer" not in log, "logins that run out are nobody's trouble"


REFUSALS = {
    "nobody of that name": ('useKeyTab=true keyTab="{keytab}" principal="nobody@MIRROR.TEST"', "nobody@MIRROR.TEST"),
    "no such file": (
        'useKeyTab=true keyTab="/nowhere/mirror.keytab" principal="mirror@MIRROR.TEST"',
        "/nowhere/mirror.keytab",
    ),
    "an empty cache": ('useTicketCache=true ticketCache="/nowhere/cache"', "/nowhere/cache"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_client_without_a_ticket_gets_the_reason_in_one_line(primary, keytab, kind):
    jaas, reason = REFUSALS[kind]
    path = keytab.partition('keyTab="')[2].partition('"')[0]
    with pytest.raises(ClusterUnavailable) as refused:
        Cluster("primary", primary.java(jaas=jaas.format(keytab=path))).topics()
    assert "cluster primary (" in str(refused.value)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_center_that_is_down_is_named(primary, keytab, kdc, topic):
    java = primary.java(jaas=keytab.replace("mirror@", "late@"))
    kdc.keytab("late")
    kdc.stop()
    try:
        with pytest.raises(ClusterUnavailable) as refused:
            Cluster("primary", java).topics()
    finally:
        kdc.start()
    assert REALM in str(refused.value)
