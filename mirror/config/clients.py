"""Translate Java client properties into what aiokafka and confluent-kafka take. Files are read only when asked."""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mirror.config.properties import is_provided, shown
from mirror.config.values import INT_MAX, JAVA_BLANKS, broker_addresses
from mirror.errors import SettingsError

Role = Literal["consumer", "producer", "admin"]

DEFAULT_BATCH_BYTES = 1 << 20  # Java's 16 KiB costs a round trip per few records; 1 MiB is the brokers' default limit
# Java name -> (default, least value); all in ms
_TIMES_MS = {
    "request.timeout.ms": (30_000, 1),
    "metadata.max.age.ms": (300_000, 1),
    "retry.backoff.ms": (100, 0),
    "connections.max.idle.ms": (540_000, -1),  # -1: never close an idle connection
}
_STORES = frozenset(
    {
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.certificates",
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
    }
)
COMMON_KEYS = (
    frozenset({"bootstrap.servers", "client.id", "security.protocol", "sasl.mechanism", "sasl.jaas.config"})
    | frozenset(_TIMES_MS)
    | _STORES
)
_MAPPED: dict[Role, frozenset[str]] = {
    "consumer": COMMON_KEYS
    | {
        "fetch.min.bytes",
        "fetch.max.wait.ms",
        "fetch.max.bytes",
        "max.partition.fetch.bytes",
        "isolation.level",
        "auto.offset.reset",
    },
    "producer": COMMON_KEYS | {"acks", "compression.type", "batch.size", "max.request.size", "transaction.timeout.ms"},
    "admin": COMMON_KEYS,
}
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LOGIN_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": ("PLAIN",),
    "org.apache.kafka.common.security.scram.ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
}
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_PEM_ADVICE = "Convert the store to PEM (openssl pkcs12) and set {kind}.type=PEM."


class ClientError(SettingsError):
    """A client property that cannot be honoured; `key` is its Java name without any prefix."""

    def __init__(self, key: str, complaint: str) -> None:
        super().__init__(f"{key}: {complaint}")
        self.key = key
        self.complaint = complaint

    def __reduce__(self) -> tuple[type[ClientError], tuple[str, str]]:
        return type(self), (self.key, self.complaint)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """How to read the source."""

    min_bytes: int
    max_wait_ms: int
    max_bytes: int
    max_partition_bytes: int
    isolation_level: int  # 0 read_uncommitted, 1 read_committed, as in the fetch request
    from_earliest: bool  # where a partition without a position starts; False means its end


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceOptions:
    """How to write the target. Writes always wait for all in-sync replicas."""

    compression: str | None  # None keeps the codec each batch has; "none" sends uncompressed
    batch_size: int  # bytes
    max_request_size: int  # bytes
    transaction_timeout_ms: int  # after which a broker aborts a transaction that nobody ended


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pem:
    """PEM text of the stores; None where not configured. Never shown."""

    trusted: str | None
    chain: str | None
    key: str | None
    password: str | None

    def __repr__(self) -> str:
        return "_Pem(***)"


def unmapped(role: Role, java: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of `java` that this project does not honour for such a client, in their order.

    "enable.idempotence" is mapped only where it says what is done anyway: writes are idempotent.
    """
    return tuple(key for key, value in java.items() if not is_mapped(role, key, value))


def is_mapped(role: Role, key: str, value: str) -> bool:
    """Tell whether a client of this role honours `key` set to `value`."""
    if key == "enable.idempotence" and role == "producer":
        return value.strip(JAVA_BLANKS).lower() == "true"
    return key in _MAPPED[role]


def check(role: Role, java: Mapping[str, str]) -> None:
    """Raise ClientError if the properties cannot be turned into a client; reads the PEM files it names."""
    aiokafka_options(java)
    if role == "consumer":
        fetch_options(java)
    elif role == "producer":
        produce_options(java)
    else:
        confluent_options(java)


def aiokafka_options(java: Mapping[str, str]) -> dict[str, Any]:
    """Return keyword arguments for aiokafka.AIOKafkaClient. Holds an SSLContext: call it where the client lives.

    Raises:
        ClientError: A property cannot be honoured.
    """
    protocol = _protocol(java)
    idle_ms = _time_ms(java, "connections.max.idle.ms")
    options: dict[str, Any] = {
        "bootstrap_servers": _bootstrap(java),
        "request_timeout_ms": _time_ms(java, "request.timeout.ms"),
        "metadata_max_age_ms": _time_ms(java, "metadata.max.age.ms"),
        "retry_backoff_ms": _time_ms(java, "retry.backoff.ms"),
        "connections_max_idle_ms": None if idle_ms < 0 else idle_ms,
        "security_protocol": protocol,
    }
    if client_id := _text(java, "client.id"):
        options["client_id"] = client_id
    if protocol.endswith("SSL"):
        options["ssl_context"] = _ssl_context(java)
    if protocol.startswith("SASL"):
        mechanism, username, password = _sasl(java)
        options |= {"sasl_mechanism": mechanism, "sasl_plain_username": username, "sasl_plain_password": password}
    return options


def confluent_options(java: Mapping[str, str]) -> dict[str, str | int]:
    """Return the configuration for confluent_kafka's AdminClient. Times are cut to what librdkafka accepts.

    Raises:
        ClientError: A property cannot be honoured.
    """
    protocol = _protocol(java)
    options: dict[str, str | int] = {
        "bootstrap.servers": ",".join(_bootstrap(java)),
        "security.protocol": protocol,
        "socket.timeout.ms": min(max(_time_ms(java, "request.timeout.ms"), 10), 300_000),
        "metadata.max.age.ms": min(_time_ms(java, "metadata.max.age.ms"), 86_400_000),
        "retry.backoff.ms": min(max(_time_ms(java, "retry.backoff.ms"), 1), 300_000),
        "connections.max.idle.ms": max(_time_ms(java, "connections.max.idle.ms"), 0),  # 0: never, Java's -1
    }
    if client_id := _text(java, "client.id"):
        options["client.id"] = client_id
    if protocol.endswith("SSL"):
        pem = _pem(java)
        options["ssl.endpoint.identification.algorithm"] = "https" if _checks_host(java) else "none"
        parts = {
            "ssl.ca.pem": pem.trusted,
            "ssl.certificate.pem": pem.chain,
            "ssl.key.pem": pem.key,
            "ssl.key.password": pem.password,
        }
        options |= {key: value for key, value in parts.items() if value is not None}
    if protocol.startswith("SASL"):
        mechanism, username, password = _sasl(java)
        options |= {"sasl.mechanism": mechanism, "sasl.username": username, "sasl.password": password}
    return options


def fetch_options(java: Mapping[str, str]) -> FetchOptions:
    """Return how to read, with Java's consumer defaults but MirrorMaker's auto.offset.reset=earliest."""
    isolation = _choice(java, "isolation.level", "read_uncommitted", ("read_uncommitted", "read_committed"))
    return FetchOptions(
        min_bytes=_integer(java, "fetch.min.bytes", 1, least=0),
        max_wait_ms=_integer(java, "fetch.max.wait.ms", 500, least=0),
        max_bytes=_integer(java, "fetch.max.bytes", 50 << 20, least=1),
        max_partition_bytes=_integer(java, "max.partition.fetch.bytes", 1 << 20, least=1),
        isolation_level=int(isolation == "read_committed"),
        from_earliest=_choice(java, "auto.offset.reset", "earliest", ("earliest", "latest")) == "earliest",
    )


def produce_options(java: Mapping[str, str]) -> ProduceOptions:
    """Return how to write. acks other than all is refused: a record counts as mirrored when it is safe."""
    acks = _text(java, "acks")
    if acks is not None and acks not in ("all", "-1"):
        found = shown(java, "acks", acks)
        raise ClientError("acks", f"{found} found, expected all. A mirror must not lose records; leave the key out.")
    return ProduceOptions(
        compression=_choice(java, "compression.type", "none", _CODECS) if "compression.type" in java else None,
        batch_size=_integer(java, "batch.size", DEFAULT_BATCH_BYTES, least=1),
        max_request_size=_integer(java, "max.request.size", 1 << 20, least=1),
        transaction_timeout_ms=_integer(java, "transaction.timeout.ms", 60_000, least=1),
    )


def _text(java: Mapping[str, str], key: str) -> str | None:
    value = java.get(key)
    return None if value is None else value.strip(JAVA_BLANKS)


def _integer(java: Mapping[str, str], key: str, default: int, *, least: int) -> int:
    value = _text(java, key)
    if value is None:
        return default
    if re.fullmatch(r"[+-]?[0-9]{1,18}", value) is None or not least <= int(value) <= INT_MAX:
        expected = f"an integer of at least {least}"
        raise ClientError(key, f"{shown(java, key, value)} is not {expected}. Correct it or leave the key out.")
    return int(value)


def _time_ms(java: Mapping[str, str], key: str) -> int:
    default, least = _TIMES_MS[key]
    return _integer(java, key, default, least=least)


def _choice(java: Mapping[str, str], key: str, default: str, choices: tuple[str, ...]) -> str:
    value = _text(java, key)
    if value is None:
        return default
    if value not in choices:
        raise ClientError(key, f"{shown(java, key, value)} is not supported. Write one of {', '.join(choices)}.")
    return value


def _bootstrap(java: Mapping[str, str]) -> list[str]:
    key = "bootstrap.servers"
    value = _text(java, key)
    if not value:
        raise ClientError(key, 'is not set. Write "host:port,host:port".')
    try:
        return list(broker_addresses(value))
    except ValueError as error:
        found = shown(java, key, str(error))
        raise ClientError(key, f'{found} is not host:port. Write "host:port,host:port".') from None


def _protocol(java: Mapping[str, str]) -> str:
    key = "security.protocol"
    value = (_text(java, key) or "PLAINTEXT").upper()
    if value not in _PROTOCOLS:
        raise ClientError(key, f"{shown(java, key, value)} is not supported. Write one of {', '.join(_PROTOCOLS)}.")
    return value


def _checks_host(java: Mapping[str, str]) -> bool:
    """Java's default is https; an empty value switches the host name check off."""
    key = "ssl.endpoint.identification.algorithm"
    value = _text(java, key)
    if value is not None and value.lower() not in ("https", ""):
        advice = "Write https, or nothing to skip the host name check."
        raise ClientError(key, f"{shown(java, key, value)} is not supported. {advice}")
    return value != ""


def _sasl(java: Mapping[str, str]) -> tuple[str, str, str]:
    """Return (mechanism, username, password). Java's default mechanism is GSSAPI, which is not supported."""
    key = "sasl.mechanism"
    mechanism = (_text(java, key) or "GSSAPI").upper()
    supported = [name for names in _LOGIN_MODULES.values() for name in names]
    if mechanism not in supported:
        found = shown(java, key, mechanism)
        raise ClientError(key, f"{found} is not supported. Write one of {', '.join(supported)}.")
    module, options = _login(java)
    if mechanism not in _LOGIN_MODULES[module]:
        if is_provided(java, key) or is_provided(java, "sasl.jaas.config"):
            raise ClientError("sasl.jaas.config", "its module does not fit sasl.mechanism. Correct one of the two.")
        fits = next(name for name, mechanisms in _LOGIN_MODULES.items() if mechanism in mechanisms)
        raise ClientError("sasl.jaas.config", f"{module} does not fit sasl.mechanism {mechanism}. Use {fits}.")
    return mechanism, options["username"], options["password"]


def _login(java: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Parse "Module required name=value ...;". Its text is never quoted in an error, but for names it may not hold."""
    key = "sasl.jaas.config"
    jaas, is_hidden = _text(java, key) or "", is_provided(java, key)
    example = 'Write: <module> required username="..." password="...";'
    module = re.match(r"[\w.$]*LoginModule(?=\s|;|$)", jaas)
    if module is None:  # what stands there instead may be a password
        raise ClientError(key, f"names no login module. {example}")
    if module[0] not in _LOGIN_MODULES:
        found = "its login module" if is_hidden else module[0]
        raise ClientError(key, f"{found} is not supported. Use one of {', '.join(_LOGIN_MODULES)}.")
    body = re.fullmatch(r"\s+(?:required|requisite|sufficient|optional)\b(.*);\s*", jaas[module.end() :], re.I | re.S)
    option = re.compile(r"""\s*([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';=]+))\s*""", re.S)
    options: dict[str, str] = {}
    at, rest = 0, body[1].strip() if body else ""
    while body and (match := option.match(rest, at)):
        quoted = match[2] if match[2] is not None else match[3]
        options[match[1]] = match[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.S)
        at = match.end()
    if body is None or at != len(rest):
        raise ClientError(key, f"is not one login module with its options. {example}")
    if missing := [name for name in ("username", "password") if not options.get(name)]:
        raise ClientError(key, f"has no {' and no '.join(missing)}. {example}")
    if extra := sorted(options.keys() - {"username", "password"}):
        found = "one of its options" if is_hidden else f"option {extra[0]}"
        raise ClientError(key, f"{found} is not supported. Leave only username and password.")
    return module[0], options


def _pem(java: Mapping[str, str]) -> _Pem:
    """Return the trusted certificates, own chain and key; reads ssl.truststore.location and ssl.keystore.location."""
    trusted = _store(java, "ssl.truststore", "certificates")
    chain = _store(java, "ssl.keystore", "certificate.chain")
    key = _store(java, "ssl.keystore", "key")
    if (chain is None) != (key is None):
        missing = "ssl.keystore.certificate.chain" if chain is None else "ssl.keystore.key"
        raise ClientError(missing, "is not set, yet its other half is. Set both, or ssl.keystore.location.")
    return _Pem(trusted=trusted, chain=chain, key=key, password=_text(java, "ssl.key.password"))


def _store(java: Mapping[str, str], kind: str, part: str) -> str | None:
    """Return one part of a PEM store, given inline or as a file; a keystore file holds both chain and key."""
    inline, location = _text(java, f"{kind}.{part}"), _text(java, f"{kind}.location")
    if not inline and not location:
        return None
    type_key = f"{kind}.type"
    store_type = _text(java, type_key) or "JKS"  # Java's default
    if store_type.upper() != "PEM":
        advice = _PEM_ADVICE.format(kind=kind)
        raise ClientError(type_key, f"{shown(java, type_key, store_type)} is not supported, expected PEM. {advice}")
    if inline and location:
        raise ClientError(f"{kind}.location", f"and {kind}.{part} are both set. Keep one of them.")
    source = f"{kind}.{part}" if inline else f"{kind}.location"
    blocks = _blocks(inline or _file(java, source))
    wanted = [block for label, block in blocks if label.endswith("PRIVATE KEY") == (part == "key")]
    if not wanted:
        raise ClientError(source, f"holds no PEM {'private key' if part == 'key' else 'certificate'}. Check it.")
    return "".join(wanted)


def _file(java: Mapping[str, str], key: str) -> str:
    location = _text(java, key) or ""
    try:
        return Path(location).read_text("ascii", "replace")
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        found = shown(java, key, location)
        raise ClientError(key, f"{found} cannot be read ({reason}). Check path and rights.") from None


def _blocks(pem: str) -> list[tuple[str, str]]:
    """Return (label, block) per PEM block, rewrapped: a properties value often holds it on one line."""
    blocks = []
    for label, body in _PEM_BLOCK.findall(pem):
        if ":" in body:  # an old encrypted key with headers keeps its lines
            lines = body.strip()
        else:
            packed = "".join(body.split())
            lines = "\n".join(packed[at : at + 64] for at in range(0, len(packed), 64))
        blocks.append((label, f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"))
    return blocks


def _ssl_context(java: Mapping[str, str]) -> ssl.SSLContext:
    """Return a client context; without a truststore the system's authorities are trusted, as Java trusts the JVM's."""
    pem = _pem(java)
    try:
        context = ssl.create_default_context(cadata=pem.trusted)
    except ssl.SSLError as error:
        key = "ssl.truststore.certificates" if java.get("ssl.truststore.certificates") else "ssl.truststore.location"
        raise ClientError(key, f"holds a certificate that cannot be read ({error.reason}). Check it.") from None
    context.check_hostname = _checks_host(java)
    if pem.chain is not None and pem.key is not None:
        key = "ssl.keystore.key" if java.get("ssl.keystore.key") else "ssl.keystore.location"
        with tempfile.NamedTemporaryFile("w", encoding="ascii", suffix=".pem") as file:  # ssl takes only a path; 0600
            file.write(pem.key + pem.chain)
            file.flush()
            try:
                context.load_cert_chain(file.name, password=lambda: pem.password or "")
            except (ssl.SSLError, ValueError) as error:
                reason = (error.reason if isinstance(error, ssl.SSLError) else None) or "wrong key or ssl.key.password"
                raise ClientError(key, f"cannot be used ({reason}). Check chain, key and ssl.key.password.") from None
    return context
