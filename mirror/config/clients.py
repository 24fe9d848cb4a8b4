"""Translate Java client properties for kafka-mirror's own client and for confluent-kafka.

Files are read only on demand.
"""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from mirror.config import sasl
from mirror.config.properties import shown
from mirror.config.sasl import Login
from mirror.config.secret_files import SecretFiles, fresh
from mirror.config.setting_types import Scope
from mirror.config.stores import pem, ssl_context
from mirror.config.table import CLIENT_KEYS, SETTINGS, keys_of
from mirror.config.values import JAVA_BLANKS, ClientError, broker_addresses, client_text, of_client
from mirror.model.codecs import LEVELS

log = logging.getLogger("mirror")

Role = Literal["consumer", "producer", "admin"]

_MAPPED: dict[Role, frozenset[str]] = {
    "consumer": CLIENT_KEYS | keys_of(Scope.CONSUMER),
    "producer": CLIENT_KEYS | keys_of(Scope.PRODUCER),
    "admin": CLIENT_KEYS,
}
_BUFFERS = ("send.buffer.bytes", "receive.buffer.bytes")
IDLE_WAIT_MS = 2_000  # of a fetch of idle partitions, if the file does not set fetch.max.wait.ms
CLIENT_ID = "kafka-mirror"  # for the brokers' logs and quotas, if the file sets none


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How to connect to a cluster (mirror.kafka.client). Times are in seconds."""

    bootstrap: tuple[str, ...]  # "host:port"
    client_id: str = CLIENT_ID
    request_timeout_s: float = 30.0
    metadata_max_age_s: float = 300.0
    retry_backoff_s: float = 0.1
    idle_s: float | None = 540.0  # close a connection that is idle for this long; None: never
    send_buffer_bytes: int | None = None  # of sockets; None: the system's buffers, which grow with the link
    receive_buffer_bytes: int | None = None
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    login: Login | None = None
    secrets: Secrets | None = field(default=None, repr=False, compare=False)

    def renewed(self) -> ClientOptions:
        """Return the options for a new connection, with the current secrets of the files."""
        if self.secrets is None or not self.secrets.renew():
            return self
        login = self.secrets.login if self.login is not None else None
        return replace(self, tls=self.secrets.tls, login=login)


class Secrets:
    """TLS and login of one client; they are read again when their files have changed."""

    def __init__(self, java: Mapping[str, str]) -> None:
        """Read the secrets; raises ClientError if a property is not supported."""
        self._java = java
        self._files = SecretFiles(java)
        self._is_renewed = False
        self.tls, self.login = _secured(java)

    def renew(self) -> bool:
        """Read the secrets if a file has changed; return whether they ever changed.

        If a file is invalid, the old secrets stay.
        """
        if self._files.changed():
            try:
                self.tls, self.login = _secured(fresh(self._java))
                self._is_renewed = True
                log.info("new connections use the secrets of changed files")
            except ClientError as error:
                log.warning("a file with secrets has changed and cannot be used; the old secrets stay: %s", error)
        return self._is_renewed


def _secured(java: Mapping[str, str]) -> tuple[ssl.SSLContext | None, Login | None]:
    protocol = _value(java, "security.protocol")
    tls = ssl_context(java, checks_host=_checks_host(java)) if protocol.endswith("SSL") else None
    return tls, sasl.login(java) if protocol.startswith("SASL") else None


@dataclass(frozen=True, slots=True)
class Relayed:
    """Options to connect librdkafka to the login relay of this process (mirror.kafka.login_relay)."""

    bootstrap: tuple[str, ...]
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """How to read the source."""

    min_bytes: int
    max_wait_ms: int
    idle_wait_ms: int  # as max_wait_ms, of a fetch of idle partitions
    max_bytes: int
    max_partition_bytes: int
    isolation_level: int  # 0 read_uncommitted, 1 read_committed, as in the fetch request
    from_earliest: bool  # where a partition without a position starts: True means the log start, False the log end
    rack: str = (
        ""  # the mirror's rack: if the source supports it (KIP-392), it names replicas in this rack to read from
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceOptions:
    """How to write to the target. Writes always wait for all in-sync replicas."""

    compression: str | None  # None keeps the codec of each batch; "none" sends uncompressed batches
    level: int | None = None  # of `compression`; None for Kafka's default
    batch_size: int  # bytes
    linger_s: float  # how long a record may wait for others
    max_request_size: int  # bytes per request; a larger batch is sent alone, unless it is larger than:
    largest_batch: int | None  # bytes: max.request.size if set; None: only the target's own limits apply
    transaction_timeout_ms: int  # after this time a broker aborts an unfinished transaction


def unmapped(role: Role, java: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of `java` that are unsupported for this role, in order.

    "enable.idempotence" is accepted only as true, because writes are always idempotent.
    """
    return tuple(key for key, value in java.items() if not is_mapped(role, key, value))


def is_mapped(role: Role, key: str, value: str) -> bool:
    """Return whether a client of this role honours `key` set to `value`."""
    if key == "enable.idempotence" and role == "producer":
        return value.strip(JAVA_BLANKS).lower() == "true"
    return key in _MAPPED[role]


def check(role: Role, java: Mapping[str, str]) -> None:
    """Raise ClientError if no client can be made from the properties; read their key stores."""
    client_options(java)
    if role == "consumer":
        fetch_options(java)
    elif role == "producer":
        produce_options(java)
    else:
        confluent_options(java)


def client_options(java: Mapping[str, str]) -> ClientOptions:
    """Return the connection options of kafka-mirror's client.

    They contain an SSLContext, so call this in the process of the client.

    Raises:
        ClientError: A property is not supported.
    """
    java = fresh(java)
    secrets = Secrets(java)
    idle_ms = _value(java, "connections.max.idle.ms")
    return ClientOptions(
        bootstrap=_bootstrap(java),
        client_id=client_text(java, "client.id") or CLIENT_ID,
        request_timeout_s=_value(java, "request.timeout.ms") / 1000,
        metadata_max_age_s=_value(java, "metadata.max.age.ms") / 1000,
        retry_backoff_s=_value(java, "retry.backoff.ms") / 1000,
        idle_s=None if idle_ms < 0 else idle_ms / 1000,
        send_buffer_bytes=_buffer(java, "send.buffer.bytes"),
        receive_buffer_bytes=_buffer(java, "receive.buffer.bytes"),
        tls=secrets.tls,
        login=secrets.login,
        secrets=secrets,
    )


def confluent_options(java: Mapping[str, str], *, relayed: Relayed | None = None) -> dict[str, Any]:
    """Return the configuration for confluent_kafka's clients, with times that librdkafka accepts.

    Args:
        java: The client's properties.
        relayed: Where to connect instead of the brokers in `java`.

    Raises:
        ClientError: A property is not supported.
    """
    java = fresh(java)
    options: dict[str, Any] = {
        **(_connection(java) if relayed is None else _relayed(relayed)),
        "socket.timeout.ms": min(max(_value(java, "request.timeout.ms"), 10), 300_000),
        "metadata.max.age.ms": min(_value(java, "metadata.max.age.ms"), 86_400_000),
        "retry.backoff.ms": min(max(_value(java, "retry.backoff.ms"), 1), 300_000),
        "connections.max.idle.ms": max(_value(java, "connections.max.idle.ms"), 0),  # 0 means never, like Java's -1
        **{f"socket.{key}": size for key in _BUFFERS if (size := _buffer(java, key)) is not None},
    }
    if client_id := client_text(java, "client.id"):
        options["client.id"] = client_id
    return options


def _connection(java: Mapping[str, str]) -> dict[str, Any]:
    protocol = _value(java, "security.protocol")
    options: dict[str, Any] = {"bootstrap.servers": ",".join(_bootstrap(java)), "security.protocol": protocol}
    if protocol.endswith("SSL"):
        stores = pem(java)
        options["ssl.endpoint.identification.algorithm"] = "https" if _checks_host(java) else "none"
        parts = {
            "ssl.ca.pem": stores.trusted,
            "ssl.certificate.pem": stores.chain,
            "ssl.key.pem": stores.key,
            "ssl.key.password": stores.password,
        }
        options |= {key: value for key, value in parts.items() if value is not None}
    if protocol.startswith("SASL"):
        options |= sasl.confluent_options(java)
    return options


def _relayed(relayed: Relayed) -> dict[str, Any]:
    return {
        "bootstrap.servers": ",".join(relayed.bootstrap),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": relayed.username,
        "sasl.password": relayed.password,
    }


def fetch_options(java: Mapping[str, str]) -> FetchOptions:
    """Return the fetch options: Java's consumer defaults, except MirrorMaker's auto.offset.reset=earliest."""
    isolation = _value(java, "isolation.level")
    min_bytes, max_wait_ms = _value(java, "fetch.min.bytes"), _value(java, "fetch.max.wait.ms")
    # With a larger fetch.min.bytes, the first record of an idle partition would wait for as long.
    waits_longer = min_bytes <= 1 and "fetch.max.wait.ms" not in java
    return FetchOptions(
        min_bytes=min_bytes,
        max_wait_ms=max_wait_ms,
        idle_wait_ms=IDLE_WAIT_MS if waits_longer else max_wait_ms,
        max_bytes=_value(java, "fetch.max.bytes"),
        max_partition_bytes=_value(java, "max.partition.fetch.bytes"),
        isolation_level=int(isolation == "read_committed"),
        from_earliest=_value(java, "auto.offset.reset") == "earliest",
        rack=client_text(java, "client.rack") or "",
    )


def produce_options(java: Mapping[str, str]) -> ProduceOptions:
    """Return the options of the producer. Only acks=all is accepted: a mirrored record must be safe."""
    acks = client_text(java, "acks")
    if acks is not None and acks not in ("all", "-1"):
        found = shown(java, "acks", acks)
        raise ClientError("acks", f"{found} found, expected all. A mirror must not lose records; leave the key out.")
    compression = _value(java, "compression.type")
    levels = {codec: _level(java, codec) for codec in LEVELS}
    return ProduceOptions(
        compression=compression,
        level=levels.get(compression or ""),
        batch_size=_value(java, "batch.size"),
        linger_s=_value(java, "linger.ms") / 1000,
        max_request_size=(request_bytes := _value(java, "max.request.size")),
        largest_batch=request_bytes if "max.request.size" in java else None,
        transaction_timeout_ms=_value(java, "transaction.timeout.ms"),
    )


def _value(java: Mapping[str, str], key: str) -> Any:
    """Return a property as its row of the table parses it, or its default."""
    entry = of_client(java, key)
    return SETTINGS[key].default_value() if entry is None else SETTINGS[key].read(entry)


def _buffer(java: Mapping[str, str], key: str) -> int | None:
    """Return a socket's buffer size; None means the system's, which is -1 in Java."""
    size: int = _value(java, key)
    return size if size > 0 else None


def _level(java: Mapping[str, str], codec: str) -> int | None:
    key, levels = f"compression.{codec}.level", LEVELS[codec]
    value = client_text(java, key)
    if value is None:
        return None
    if re.fullmatch(r"[+-]?[0-9]{1,9}", value) is None or int(value) not in levels:
        expected = f"expected {levels.start} to {levels.stop - 1}"
        raise ClientError(key, f"{shown(java, key, value)} found, {expected}. Correct it or leave the key out.")
    return int(value)


def _bootstrap(java: Mapping[str, str]) -> tuple[str, ...]:
    key = "bootstrap.servers"
    value = client_text(java, key)
    if not value:
        raise ClientError(key, 'is not set. Write "host:port,host:port".')
    try:
        return tuple(broker_addresses(value))
    except ValueError as error:
        found = shown(java, key, str(error))
        raise ClientError(key, f'{found} is not host:port. Write "host:port,host:port".') from None


def _checks_host(java: Mapping[str, str]) -> bool:
    """Return whether the host name is verified. Java's default is https; an empty value disables it."""
    key = "ssl.endpoint.identification.algorithm"
    value = client_text(java, key)
    if value is not None and value.lower() not in ("https", ""):
        advice = "Write https, or nothing to skip the host name check."
        raise ClientError(key, f"{shown(java, key, value)} is not supported. {advice}")
    return value != ""
