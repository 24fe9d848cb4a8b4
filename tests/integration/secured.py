"""A broker with every kind of listener at once, and the Java properties of clients that may use them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from mirror.embedded.broker import Broker
from mirror.embedded.ports import HOST, free_port
from tests.certificates import Identity, identity, truststore
from tests.fault_proxy import FaultProxy
from tests.token_endpoint import TokenEndpoint

MODULES = "org.apache.kafka.common.security"
USER = "mirror"
LISTENERS = {  # name -> protocol
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SSL",
    "STRANGE": "SSL",  # its certificate is for another host
    "LOGIN": "SASL_PLAINTEXT",
    "TOKEN": "SASL_PLAINTEXT",
    "BOTH": "SASL_SSL",
}


def canary(what: str) -> str:
    """A password that nothing else can hold by chance."""
    return f"S3cr3t-CANARY-{what}-{uuid.uuid4().hex}"


@dataclass(slots=True, kw_only=True)
class Party:
    """Everybody's certificates, passwords and stores."""

    folder: Path
    endpoint: TokenEndpoint
    secrets: dict[str, str]
    root: Identity = field(default_factory=lambda: identity("root", is_authority=True))
    other_root: Identity = field(default_factory=lambda: identity("other root", is_authority=True))

    def __post_init__(self) -> None:
        client = identity("client", by=identity("middle", by=self.root, is_authority=True))
        client.jks(self.folder / "key.jks", self.secrets["store"], key_password=self.secrets["key"])
        client.pkcs12(self.folder / "key.p12", self.secrets["store"])
        (self.folder / "key.pem").write_text(client.key_pem + client.chain_pem)
        (self.folder / "trust.pem").write_text(self.root.pem)
        for name, kind, authority in (
            ("trust.jks", "JKS", self.root),
            ("trust.p12", "PKCS12", self.root),
            ("wrong.jks", "JKS", self.other_root),
        ):
            truststore(self.folder / name, kind, self.secrets["trust"], authority)

    def trusts(self, store: str = "trust.jks") -> dict[str, str]:
        """Client properties of a truststore."""
        kind = {"jks": "JKS", "p12": "PKCS12", "pem": "PEM"}[store.rpartition(".")[2]]
        found = {"ssl.truststore.type": kind, "ssl.truststore.location": str(self.folder / store)}
        return found if kind == "PEM" else found | {"ssl.truststore.password": self.secrets["trust"]}

    def tls(self, store: str = "trust.jks") -> dict[str, str]:
        return {"security.protocol": "SSL"} | self.trusts(store)

    def mutual(self, suffix: str) -> dict[str, str]:
        """Client properties with both stores of one kind."""
        found = self.tls(f"trust.{suffix}") | {"ssl.keystore.location": str(self.folder / f"key.{suffix}")}
        if suffix == "pem":
            return found | {"ssl.keystore.type": "PEM"}
        found |= {"ssl.keystore.type": {"jks": "JKS", "p12": "PKCS12"}[suffix]}
        found |= {"ssl.keystore.password": self.secrets["store"]}
        return found | ({"ssl.key.password": self.secrets["key"]} if suffix == "jks" else {})

    def plain(self) -> dict[str, str]:
        return login("PLAIN", "plain.PlainLoginModule", username=USER, password=self.secrets["plain"])

    def scram(self, bits: int = 512, password: str | None = None) -> dict[str, str]:
        secret = password or self.secrets["scram"]
        return login(f"SCRAM-SHA-{bits}", "scram.ScramLoginModule", username=USER, password=secret)

    def token(self, secret: str | None = None) -> dict[str, str]:
        module = "oauthbearer.OAuthBearerLoginModule"
        found = login("OAUTHBEARER", module, clientId=USER, clientSecret=secret or self.secrets["token"])
        return found | {"sasl.oauthbearer.token.endpoint.url": self.endpoint.url}


def login(mechanism: str, module: str, **options: str) -> dict[str, str]:
    """Client properties of a SASL login without TLS."""
    given = " ".join(f'{name}="{value}"' for name, value in options.items())
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{MODULES}.{module} required {given};",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Secured:
    """A running broker and where its listeners are."""

    broker: Broker
    ports: Mapping[str, int]
    link: FaultProxy  # what the listener BOTH is reached through

    @property
    def bootstrap(self) -> str:
        """The plain listener's address: what the test itself reads and writes by."""
        return self.broker.bootstrap

    def at(self, listener: str) -> str:
        return f"{HOST}:{self.ports[listener]}"


@contextmanager
def secured(name: str, folder: Path, party: Party, **more: str) -> Iterator[Secured]:
    """Start a broker with all LISTENERS and the user's SCRAM passwords; `more` are properties, with _ for their dots."""
    ports = {listener: free_port() for listener in LISTENERS}
    link = FaultProxy(ports["BOTH"], free_port())
    known = identity("broker", by=party.root, hosts=(HOST, "localhost"))
    overrides = {
        "listeners": _addresses(ports | {"BOTH": link.upstream}),
        "advertised.listeners": _addresses(ports),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
        **_certificate("tls", known),
        **_certificate("mutual", known),
        **_certificate("both", known),
        **_certificate("expired", identity("broker", by=party.root, hosts=(HOST,), days=-1)),
        **_certificate("strange", identity("broker", by=party.root, hosts=("elsewhere.example",))),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.certificates": _one_line(party.root.pem),
        **_mechanisms(
            "login",
            {
                "PLAIN": f'plain.PlainLoginModule required user_{USER}="{party.secrets["plain"]}"',
                "SCRAM-SHA-256": "scram.ScramLoginModule required",
                "SCRAM-SHA-512": "scram.ScramLoginModule required",
            },
        ),
        **_mechanisms("both", {"SCRAM-SHA-512": "scram.ScramLoginModule required"}),
        # The broker's own test validator takes any token without a signature.
        **_mechanisms(
            "token",
            {"OAUTHBEARER": 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker"'},
        ),
        "listener.name.token.oauthbearer.connections.max.reauth.ms": "3600000",  # a connection ends with its token
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    with Broker.start(name, folder / name, overrides=overrides) as broker, link:
        running = Secured(broker=broker, ports=ports, link=link)
        set_password(running, party.secrets["scram"])
        yield running


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{listener}://{HOST}:{port}" for listener, port in ports.items())


def set_password(cluster: Secured, password: str) -> None:
    """Set the user's SCRAM passwords."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        wanted = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), password.encode())
        for done in admin.alter_user_scram_credentials([wanted]).values():
            done.result(30)


def _certificate(listener: str, who: Identity) -> dict[str, str]:
    return {
        f"listener.name.{listener}.ssl.keystore.type": "PEM",
        f"listener.name.{listener}.ssl.keystore.key": _one_line(who.key_pem),
        f"listener.name.{listener}.ssl.keystore.certificate.chain": _one_line(who.chain_pem),
    }


def _mechanisms(listener: str, modules: Mapping[str, str]) -> dict[str, str]:
    found = {f"listener.name.{listener}.sasl.enabled.mechanisms": ",".join(modules)}
    for mechanism, module in modules.items():
        found[f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"] = f"{MODULES}.{module};"
    return found


def _one_line(pem: str) -> str:
    return pem.replace("\n", " ")
