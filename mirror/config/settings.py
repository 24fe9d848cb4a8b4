"""Define the checked settings of flows, clusters and the process."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from metrics.http_access import HttpAccess
from mirror.config.properties import Properties
from mirror.config.table import SETTINGS
from mirror.config.transforms import TopicTransform
from mirror.model.flow_plan import canary
from mirror.policy.filters import NameFilter
from mirror.policy.naming import ReplicationPolicy
from mirror.policy.recreated import OnRecreated
from mirror.policy.topic_configs import ConfigSync

NO_TOPICS = NameFilter(include=(), exclude=())
_DIGEST_DIGITS = 12
_OF_A_MACHINE = re.compile(r'[\w.]+\.location="[^"]*"')  # key stores and certificates may differ in place
_FLOW_CLIENTS = ("offset_syncs_producer", "consumer", "producer", "source_admin", "target_admin")  # fields of Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """A cluster at one end of a flow."""

    alias: str
    client: Mapping[str, str]  # Java keys for all clients of the cluster, including bootstrap.servers

    def __post_init__(self) -> None:
        object.__setattr__(self, "client", Properties(self.client))

    def __repr__(self) -> str:
        return f"Cluster({self.alias}: {self.client})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """Which groups' offsets are translated, how often, and whether the target's groups are moved.

    B.2 of the semantics.
    """

    enabled: bool
    interval_s: float
    groups: NameFilter
    lists_new_groups: bool
    replication_factor: int
    sync_groups: bool
    sync_interval_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSyncSettings:
    """Whether MirrorMaker's offset syncs are written, and to which cluster."""

    enabled: bool
    at_source: bool
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSettings:
    """Whether and how often a flow writes heartbeats, and whether it mirrors the source's."""

    enabled: bool
    interval_s: float
    replication_factor: int
    replicated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """An action that runs at the start and then at an interval, or never."""

    enabled: bool
    interval_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One enabled replication flow, with all settings of its clients as Java client properties.

    Its repr shows only the clients' properties: any other setting may have come from a config provider.
    """

    source: ClusterSettings
    target: ClusterSettings
    topics: NameFilter
    policy: ReplicationPolicy
    replication_factor: int  # of topics created on the target; -1 leaves it to the target's brokers
    tasks_max: int
    refresh_topics: Every
    configs: ConfigSync
    sync_configs: Every
    sync_acls: Every
    checkpoints: CheckpointSettings
    offset_syncs: OffsetSyncSettings
    heartbeats: HeartbeatSettings
    offset_syncs_producer: Mapping[str, str]
    consumer: Mapping[str, str]  # for reading the source
    producer: Mapping[str, str]  # for writing to the target
    source_admin: Mapping[str, str]
    target_admin: Mapping[str, str]
    on_recreated: OnRecreated = OnRecreated.RESTART
    rpo_objective_s: int = 60  # how long a record may wait for replication
    transaction_ms: int = 0  # maximum duration of a transaction; 0: no transactions, at-least-once delivery
    grows_topics: bool = True  # remote topics get the source's partition count; else records are spread over theirs
    connect_offsets_topic: str = ""  # on the target, with the positions of an earlier MirrorMaker 2
    connect_groups: tuple[str, ...] = ()  # groups of that MirrorMaker's workers, on the target
    takeover_connectors: tuple[str, ...] = ()  # connectors whose positions in that topic the flow takes over
    is_bidirectional: bool = False  # topics keep their names in both directions, and each record is replicated once
    transforms: tuple[TopicTransform, ...] = ()  # of the flow's records
    identical_topics: NameFilter = NO_TOPICS  # topics whose records have the same offsets on both clusters
    has_canaries: bool = False  # replicates the canary topics of its drill and of the reverse flow's drill
    source_group: str = ""  # group on the source: its offsets are the first positions, and later show the positions

    def __post_init__(self) -> None:
        for name in _FLOW_CLIENTS:
            object.__setattr__(self, name, Properties(getattr(self, name)))

    def __repr__(self) -> str:
        return f"Flow({self.name}: {', '.join(f'{name}={getattr(self, name)}' for name in _FLOW_CLIENTS)})"

    @property
    def name(self) -> str:
        """The flow as operators write it: source->target."""
        return f"{self.source.alias}->{self.target.alias}"

    @property
    def canaries(self) -> frozenset[str]:
        """The canary topics that the flow replicates."""
        ends = (self.source.alias, self.target.alias)
        return frozenset((canary(*ends), canary(*ends[::-1]))) if self.has_canaries else frozenset()


def digest(flow: Flow) -> str:
    """Return a short digest of a flow's settings, which processes sharing the flow compare.

    It is computed with *** instead of secrets, so that a secret cannot be found by trying values.
    """
    settings = "\n".join(f"{each.name}={getattr(flow, each.name)!r}" for each in fields(flow))
    return hashlib.sha256(_OF_A_MACHINE.sub("", settings).encode()).hexdigest()[:_DIGEST_DIGITS]


def _set_by(key: str) -> Any:
    """Return a field of Mirror with the default of the setting in the table."""
    return field(default=SETTINGS[key].default_value(), metadata={"key": key})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """The settings of kafka-mirror itself, the `mirror.*` keys. The table describes each of them."""

    app_grafana_url: str = _set_by("mirror.app.grafana.url")
    app_prometheus_url: str = _set_by("mirror.app.prometheus.url")
    http: HttpAccess = field(default_factory=HttpAccess)  # mirror.http.*: access to /metrics and to the lag inspector
    metrics_listen: tuple[str, int] = _set_by("mirror.metrics.listen")
    is_listen_default: bool = True  # the file does not set the port: if it is taken, the next free port is used
    is_state_default: bool = True  # the file does not set the state directory: the same applies
    metrics_max_series: int = _set_by("mirror.metrics.max.series")
    metrics_strimzi_names: bool = _set_by("mirror.metrics.strimzi.names")
    state_dir: Path = _set_by("mirror.state.dir")
    window_ms: int = _set_by("mirror.window.ms")
    transaction_ms: int = _set_by("mirror.transaction.ms")
    lanes: int = _set_by("mirror.lanes")
    slots: int = _set_by("mirror.slots")
    poll_interval_s: float = _set_by("mirror.poll.interval.ms")
    source_group_enabled: bool = _set_by("mirror.source.group.enabled")
    drill_enabled: bool = _set_by("mirror.drill.enabled")
    drill_interval_s: int = _set_by("mirror.drill.interval.seconds")
    heartbeats_all_pairs: bool = _set_by("mirror.heartbeats.all.pairs")
    spark: Mapping[str, str] = Properties()  # mirror.spark.X as spark.X

    def __post_init__(self) -> None:
        object.__setattr__(self, "spark", Properties(self.spark))

    def __repr__(self) -> str:
        return f"Mirror(spark={self.spark})"

    @property
    def metrics_address(self) -> str:
        """Address of /metrics on this machine: loopback if the process listens on all addresses."""
        host, port = self.metrics_listen
        return f"{'127.0.0.1' if host in ('0.0.0.0', '') else host}:{port}"  # noqa: S104 - compared, not bound


# Field of Mirror -> the key that sets it
KEYS_OF_MIRROR = {each.name: each.metadata["key"] for each in fields(Mirror) if "key" in each.metadata}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatFlow:
    """Heartbeats of one pair of clusters, written to the target; `client` are Java properties."""

    source: str
    target: str
    topic: str
    interval_s: float
    replication_factor: int
    client: Properties

    def __repr__(self) -> str:
        return f"HeartbeatFlow({self.source}->{self.target}: {self.client})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A checked configuration."""

    flows: tuple[Flow, ...]
    heartbeat_flows: tuple[HeartbeatFlow, ...]
    mirror: Mirror
    ignored: tuple[str, ...]  # full keys without effect, in file order; for one warning
    ignored_why: Mapping[str, str]  # key -> reason, for keys in `ignored` that have a reason
    notes: tuple[str, ...] = ()  # log warnings about settings that are probably mistakes
