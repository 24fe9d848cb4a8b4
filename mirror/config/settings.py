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
_OF_A_MACHINE = re.compile(r'[\w.]+\.location="[^"]*"')  # key stores and certificates may lie elsewhere on each machine
_FLOW_CLIENTS = ("offset_syncs_producer", "consumer", "producer", "source_admin", "target_admin")  # fields of Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """One end of a flow."""

    alias: str
    client: Mapping[str, str]  # Java keys common to all of its clients, bootstrap.servers included

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
    """Whether MirrorMaker's offset syncs are written, and on which side."""

    enabled: bool
    at_source: bool
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSettings:
    """Whether and how often the flow writes heartbeats, and whether it mirrors the source's."""

    enabled: bool
    interval_s: float
    replication_factor: int
    replicated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """An action at start and then at an interval, or never."""

    enabled: bool
    interval_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One enabled replication flow with everything its clients need, as Java client properties.

    Its repr shows no other setting than those: any of them may have come from a config provider.
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
    consumer: Mapping[str, str]  # reads the source
    producer: Mapping[str, str]  # writes the target
    source_admin: Mapping[str, str]
    target_admin: Mapping[str, str]
    on_recreated: OnRecreated = OnRecreated.RESTART
    rpo_objective_s: int = 60  # for how long a record may wait for the target
    transaction_ms: int = 0  # how long a transaction may last; 0: none, delivery is at least once
    grows_topics: bool = True  # remote topics follow the source's partition count; else records are spread over theirs
    connect_offsets_topic: str = ""  # on the target, with the positions of a MirrorMaker 2 that ran before
    connect_groups: tuple[str, ...] = ()  # of that MirrorMaker's workers, on the target
    takeover_connectors: tuple[str, ...] = ()  # whose positions in that topic are the flow's
    is_bidirectional: bool = False  # topics keep their names both ways, and each record is replicated once
    transforms: tuple[TopicTransform, ...] = ()  # of its records
    identical_topics: NameFilter = NO_TOPICS  # whose records have the same offsets on both clusters
    has_canaries: bool = False  # replicates the canary topics of its drill and the reverse flow's
    source_group: str = ""  # group on the source whose offsets are the positions before there are any, and show them

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
        """The canary topics that the flow carries."""
        ends = (self.source.alias, self.target.alias)
        return frozenset((canary(*ends), canary(*ends[::-1]))) if self.has_canaries else frozenset()


def digest(flow: Flow) -> str:
    """Return a short digest of a flow's settings, which processes that share the flow compare.

    It contains *** instead of secrets, so that no one can find a secret by trying values.
    """
    settings = "\n".join(f"{each.name}={getattr(flow, each.name)!r}" for each in fields(flow))
    return hashlib.sha256(_OF_A_MACHINE.sub("", settings).encode()).hexdigest()[:_DIGEST_DIGITS]


def _set_by(key: str) -> Any:
    """Return a field of Mirror whose default is that of a setting in the table."""
    return field(default=SETTINGS[key].default_value(), metadata={"key": key})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """This program's own settings, the `mirror.*` keys. The table describes each of them."""

    app_grafana_url: str = _set_by("mirror.app.grafana.url")
    app_prometheus_url: str = _set_by("mirror.app.prometheus.url")
    http: HttpAccess = field(default_factory=HttpAccess)  # mirror.http.*: of /metrics and the lag inspector
    metrics_listen: tuple[str, int] = _set_by("mirror.metrics.listen")
    is_listen_default: bool = True  # the file does not set the port: if it is taken, the next free port serves as well
    is_state_default: bool = True  # the file does not set the state directory: likewise
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
    ignored: tuple[str, ...]  # full keys that change nothing, in file order; for one warning
    ignored_why: Mapping[str, str]  # key -> reason, for those of `ignored` that have one
    notes: tuple[str, ...] = ()  # warnings for the log, about settings that probably do something else than intended
