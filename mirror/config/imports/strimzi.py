"""Read Strimzi's resources KafkaMirrorMaker2 (v1beta2 and v1) and KafkaConnector. Pure.

A resource is converted to the connectors that Strimzi's operator creates from it.

Source: Strimzi's classes KafkaMirrorMaker2Connectors and KafkaMirrorMaker2Configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mirror.config.imports.connectors import (
    SOURCE_ALIAS,
    TARGET_ALIAS,
    Connector,
    Connectors,
    Item,
    Role,
    Setting,
    java_text,
    role_of,
    settings_of,
    somebody_elses,
)
from mirror.config.imports.secrets import mount, reference
from mirror.config.layers import is_common
from mirror.config.table import GROUP_KEY, OFFSETS_TOPIC_KEY
from mirror.errors import SettingsError

GROUP = "kafka.strimzi.io/"
MIRROR, CONNECTOR = "KafkaMirrorMaker2", "KafkaConnector"
# Before v1 the operator used these names for Connect's topic and group.
_OFFSETS_TOPIC = "mirrormaker2-cluster-offsets"
_GROUP = "mirrormaker2-cluster"
_ROLES = {"sourceConnector": Role.SOURCE, "checkpointConnector": Role.CHECKPOINT, "heartbeatConnector": Role.HEARTBEAT}
_PATTERNS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.exclude",
}
_LOGIN_MODULES = {
    "plain": ("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule"),
    "scram-sha-256": ("SCRAM-SHA-256", "org.apache.kafka.common.security.scram.ScramLoginModule"),
    "scram-sha-512": ("SCRAM-SHA-512", "org.apache.kafka.common.security.scram.ScramLoginModule"),
}
_OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_OAUTH_FIELDS = {"type", "clientId", "clientSecret", "scope", "tokenEndpointUri"}  # fields that Kafka's own module has


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cluster:
    """One cluster of a resource, and its location in the resource."""

    spec: Mapping[str, Any]
    where: str

    @property
    def alias(self) -> str:
        return str(self.spec.get("alias", ""))

    @property
    def config(self) -> Mapping[str, Any]:
        return self.spec.get("config") or {}


def is_resource(document: object) -> bool:
    """Return whether a document is a Strimzi resource with MirrorMaker's connectors."""
    return (
        isinstance(document, Mapping)
        and str(document.get("apiVersion", "")).startswith(GROUP)
        and document.get("kind") in (MIRROR, CONNECTOR)
    )


def read_resource(document: Mapping[str, Any], where: str) -> Connectors:
    """Return the connectors of a resource, and its settings for Connect's worker.

    Raises:
        SettingsError: a required field is missing.
    """
    spec = document.get("spec")
    if not isinstance(spec, Mapping):
        raise SettingsError(f"{where}: {document['kind']} has no spec; expected a whole resource. Export it again.")
    try:
        if document["kind"] == CONNECTOR:
            return _connector(spec, str((document.get("metadata") or {}).get("name", "")), where)
        return _mirrors(spec, where)
    except (AttributeError, KeyError, TypeError) as error:
        what = f"{error.args[0]} is missing" if isinstance(error, KeyError) else "a value is of another kind"
        raise SettingsError(
            f"{where}: the {document['kind']} does not match Strimzi's v1beta2 or v1 ({what}). Correct it."
        ) from None


def _connector(spec: Mapping[str, Any], name: str, where: str) -> Connectors:
    """Return the connector of a KafkaConnector."""
    where = f"{where}: {name}" if name else where
    role = role_of(str(spec.get("class", "")))
    if role is None:
        return somebody_elses(name, str(spec.get("class", "")), where)
    tasks = {"tasks.max": spec["tasksMax"]} if "tasksMax" in spec else {}
    settings = settings_of({**(spec.get("config") or {}), **tasks}, where)
    return Connectors(connectors=(Connector(name=name, role=role, settings=settings, where=where, state=_state(spec)),))


def _mirrors(spec: Mapping[str, Any], where: str) -> Connectors:
    clusters = {
        str(each["alias"]): _Cluster(spec=each, where=f"{where}: spec.clusters[{number}]")
        for number, each in enumerate(spec.get("clusters") or ())
    }
    worker = _worker_cluster(spec, clusters, where)
    connectors: list[Connector] = []
    for number, mirror in enumerate(spec.get("mirrors") or ()):
        place = f"{where}: spec.mirrors[{number}]"
        if "source" in mirror:
            source, target = _Cluster(spec=mirror["source"], where=f"{place}.source"), worker
        else:
            source, target = (_named(clusters, str(mirror[f"{side}Cluster"]), place) for side in ("source", "target"))
        connectors += _connectors_of(mirror, place, source, target)
    if not connectors:
        raise SettingsError(f"{where}: {MIRROR} has no connector under spec.mirrors; expected one at least. Add it.")
    rack = Item(found="spec.rack", where=where).by_hand("write the zone of the mirror as A.consumer.client.rack")
    others = (rack,) if spec.get("rack") else ()
    return Connectors(connectors=tuple(connectors), workers={worker.alias: tuple(_worker(worker))}, others=others)


def _worker_cluster(spec: Mapping[str, Any], clusters: Mapping[str, _Cluster], where: str) -> _Cluster:
    """Return the cluster with Connect's own topics: spec.target in v1, connectCluster before."""
    if "target" in spec:
        return _Cluster(spec=spec["target"], where=f"{where}: spec.target")
    return _named(clusters, str(spec.get("connectCluster", "")), where)


def _named(clusters: Mapping[str, _Cluster], alias: str, where: str) -> _Cluster:
    if alias not in clusters:
        known = ", ".join(clusters) or "none"
        raise SettingsError(f'{where}: names the cluster "{alias}"; spec.clusters has {known}. Correct one of the two.')
    return clusters[alias]


def _connectors_of(mirror: Mapping[str, Any], place: str, source: _Cluster, target: _Cluster) -> Iterator[Connector]:
    patterns = tuple(
        Setting(key=key, value=str(mirror[name]), where=f"{place}.{name}")
        for name, key in _PATTERNS.items()
        if mirror.get(name) is not None
    )
    for part, role in _ROLES.items():
        spec = mirror.get(part)
        if spec is None:
            continue
        tasks = {"tasks.max": spec["tasksMax"]} if spec.get("tasksMax") is not None else {}
        own = settings_of({**(spec.get("config") or {}), **tasks}, f"{place}.{part}")
        settings = [
            *_cluster_settings(target, "target.cluster."),
            *_cluster_settings(source, "source.cluster."),
            *own,
            *patterns,
        ]
        yield Connector(
            name=f"{source.alias}->{target.alias}.{role.value}",
            role=role,
            settings=_last_wins(settings),
            where=f"{place}.{part}",
            state=_state(spec),
        )


def _last_wins(settings: Iterable[Setting]) -> tuple[Setting, ...]:
    return tuple({setting.key: setting for setting in settings}.values())


def _state(spec: Mapping[str, Any]) -> str:
    state = str(spec.get("state") or ("paused" if spec.get("pause") else "")).upper()
    return state if state in ("PAUSED", "STOPPED") else ""


def _cluster_settings(cluster: _Cluster, prefix: str) -> Iterator[Setting]:
    """Yield the operator's connector settings for a cluster, with secrets as references to files."""
    alias = TARGET_ALIAS if prefix.startswith("target") else SOURCE_ALIAS
    yield Setting(key=alias, value=cluster.alias, where=cluster.where)
    yield Setting(
        key=f"{prefix}bootstrap.servers",
        value=str(cluster.spec["bootstrapServers"]),
        where=f"{cluster.where}.bootstrapServers",
    )
    for each in _security(cluster):
        yield Setting(key=f"{prefix}{each.key}", value=each.value, where=each.where, to_do=each.to_do)
    for each in settings_of(cluster.config, f"{cluster.where}.config"):
        if is_common(each.key):
            yield Setting(key=f"{prefix}{each.key}", value=each.value, where=each.where)


def _security(cluster: _Cluster) -> Iterator[Setting]:
    tls, login = cluster.spec.get("tls"), cluster.spec.get("authentication") or {}
    kind = str(login.get("type", ""))
    is_sasl = kind in (*_LOGIN_MODULES, "oauth") or (kind == "custom" and bool(login.get("sasl")))
    if tls is not None:
        yield from _trusted(tls.get("trustedCertificates") or (), f"{cluster.where}.tls")
    where = f"{cluster.where}.authentication"
    if kind == "tls":
        yield from _own_certificate(login["certificateAndKey"], where)
    elif kind in _LOGIN_MODULES:
        yield from _password(kind, login, where)
    elif kind == "oauth":
        yield from _oauth(login, where)
    elif kind == "custom":
        yield from settings_of(login.get("config") or {}, where)
    elif kind:
        yield Setting(key="sasl.mechanism", value=kind, where=where, to_do=f"{kind} is an unknown authentication")
    protocol = ("SASL_" if is_sasl else "") + ("SSL" if tls is not None else "PLAINTEXT")
    yield Setting(key="security.protocol", value=protocol, where=cluster.where)


def _trusted(certificates: Sequence[Mapping[str, Any]], where: str) -> Iterator[Setting]:
    """Yield the trusted certificates; for a pattern, the file name that Strimzi's own authorities use."""
    if not certificates:
        return
    parts, to_do = [], []
    for each in certificates:
        secret, key = str(each["secretName"]), str(each.get("certificate") or "ca.crt")
        parts.append(reference(secret, key))
        to_do.append(mount(secret, key))
        if each.get("pattern"):
            to_do.append(f'the resource takes every file that matches "{each["pattern"]}": add a reference for each')
    yield Setting(
        key="ssl.truststore.certificates",
        value="\n".join(parts),
        where=f"{where}.trustedCertificates",
        to_do="; ".join(to_do),
    )
    yield Setting(key="ssl.truststore.type", value="PEM", where=f"{where}.trustedCertificates")


def _own_certificate(source: Mapping[str, Any], where: str) -> Iterator[Setting]:
    secret, place = str(source["secretName"]), f"{where}.certificateAndKey"
    for key, part in (("certificate.chain", "certificate"), ("key", "key")):
        file = str(source[part])
        yield Setting(key=f"ssl.keystore.{key}", value=reference(secret, file), where=place, to_do=mount(secret, file))
    yield Setting(key="ssl.keystore.type", value="PEM", where=place)


def _password(kind: str, login: Mapping[str, Any], where: str) -> Iterator[Setting]:
    mechanism, module = _LOGIN_MODULES[kind]
    secret, key = str(login["passwordSecret"]["secretName"]), str(login["passwordSecret"]["password"])
    options = {"username": _quoted(login["username"]), "password": reference(secret, key)}
    yield Setting(key="sasl.mechanism", value=mechanism, where=where)
    yield Setting(
        key="sasl.jaas.config", value=_jaas(module, options), where=f"{where}.passwordSecret", to_do=mount(secret, key)
    )


def _oauth(login: Mapping[str, Any], where: str) -> Iterator[Setting]:
    """Yield OAUTHBEARER settings for Kafka's own login module; Strimzi's module has further fields."""
    to_do, options = [], {"clientId": _quoted(login.get("clientId", ""))}
    if login.get("clientSecret"):
        secret, key = str(login["clientSecret"]["secretName"]), str(login["clientSecret"]["key"])
        options["clientSecret"] = reference(secret, key)
        to_do.append(mount(secret, key))
    if login.get("scope"):
        options["scope"] = _quoted(login["scope"])
    unknown = sorted(set(login) - _OAUTH_FIELDS)
    if unknown:
        to_do.append(f"{', '.join(unknown)} of Strimzi's login module have no counterpart in Kafka's")
    yield Setting(key="sasl.mechanism", value="OAUTHBEARER", where=where)
    yield Setting(
        key="sasl.oauthbearer.token.endpoint.url",
        value=java_text(login.get("tokenEndpointUri", "")),
        where=f"{where}.tokenEndpointUri",
    )
    yield Setting(key="sasl.jaas.config", value=_jaas(_OAUTH_MODULE, options), where=where, to_do="; ".join(to_do))


def _jaas(module: str, options: Mapping[str, str]) -> str:
    written = " ".join(f'{name}="{value}"' for name, value in options.items())
    return f"{module} required {written};"


def _quoted(text: object) -> str:
    """Return a text quoted for an option of a login module."""
    return str(text).replace("\\", "\\\\").replace('"', '\\"')


def _worker(cluster: _Cluster) -> Iterator[Setting]:
    """Yield a resource's settings for Connect's workers: positions, group, and clients."""
    where = f"{cluster.where}.config"
    given = {key: value for key, value in cluster.config.items() if not is_common(key)}
    for key, name, default in (
        (OFFSETS_TOPIC_KEY, "offsetStorageTopic", _OFFSETS_TOPIC),
        (GROUP_KEY, "groupId", _GROUP),
    ):
        if key not in given:
            place = f"{cluster.where}.{name}" if name in cluster.spec else "Strimzi's default"
            yield Setting(key=key, value=str(cluster.spec.get(name, default)), where=place)
    yield from settings_of(given, where)
