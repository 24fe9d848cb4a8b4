"""Load a connect-mirror-maker.properties into checked Settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from metrics.http_access import HttpAccess
from mirror.config.keys import CheckpointSettings, Every, HeartbeatSettings, OffsetSyncSettings
from mirror.config.properties import Properties
from mirror.config.transforms import TopicTransform
from mirror.model.flow_plan import canary
from mirror.policy.filters import NameFilter
from mirror.policy.naming import ReplicationPolicy
from mirror.policy.recreated import OnRecreated
from mirror.policy.topic_configs import ConfigSync

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
    transaction_ms: int = 0  # how long a transaction may last; 0: none, delivery is at least once
    grows_topics: bool = True  # remote topics follow the source's partition count; else records are spread over theirs
    connect_offsets_topic: str = ""  # on the target, with the positions of a MirrorMaker 2 that ran before
    connect_groups: tuple[str, ...] = ()  # of that MirrorMaker's workers, on the target
    takeover_connectors: tuple[str, ...] = ()  # whose positions in that topic are the flow's
    is_bidirectional: bool = False  # topics keep their names both ways, and each record crosses once
    transforms: tuple[TopicTransform, ...] = ()  # what is done to records on their way
    has_canaries: bool = False  # carries the canary topics of its own drill, and of that of the flow back
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """This program's own settings, the `mirror.*` keys."""

    app_grafana_url: str = ""  # where the lag inspector finds the boards, "" when it shall not link to any
    app_prometheus_url: str = ""  # where it finds the past
    http: HttpAccess = field(default_factory=HttpAccess)  # of /metrics and the lag inspector
    metrics_listen: tuple[str, int] = ("127.0.0.1", 9404)
    is_listen_default: bool = True  # nobody asked for that port: where it is taken, the next free one serves as well
    is_state_default: bool = True  # nobody asked for that folder: likewise
    metrics_max_series: int = 250_000
    metrics_strimzi_names: bool = False  # also serve MirrorMaker's measures under the names of Strimzi's exporter rules
    state_dir: Path = Path("state")
    window_ms: int = 10_000
    transaction_ms: int = 100  # the longest that one lasts, where delivery is exactly once
    lanes: int = 2  # 1 or 2
    slots: int = 1  # load() puts the number of processors here unless the file says otherwise
    poll_interval_s: float = 5.0
    source_group_enabled: bool = True  # commit positions to a group on the source too, for every lag tool
    drill_enabled: bool = False  # flows with a flow back carry the canary topics of drills
    drill_interval_s: int = 0  # how often each of them is rehearsed; 0: when somebody asks for it
    heartbeats_all_pairs: bool = False  # write heartbeats for flows that are not enabled too, as MirrorMaker does
    spark: Mapping[str, str] = Properties()  # mirror.spark.X as spark.X

    def __post_init__(self) -> None:
        object.__setattr__(self, "spark", Properties(self.spark))

    def __repr__(self) -> str:
        return f"Mirror(spark={self.spark})"

    @property
    def metrics_address(self) -> str:
        """Where this machine reaches /metrics: an appliance that listens everywhere, on loopback."""
        host, port = self.metrics_listen
        return f"{'127.0.0.1' if host in ('0.0.0.0', '') else host}:{port}"  # noqa: S104 - compared, not bound


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
