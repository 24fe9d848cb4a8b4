"""Load a connect-mirror-maker.properties into checked Settings."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from mirror.config import values
from mirror.config.checks import check_clients, check_flows, check_placeholders
from mirror.config.java_regex import NameFilter
from mirror.config.keys import (
    DEFAULT_TOPICS_EXCLUDE,
    CheckpointSettings,
    Every,
    HeartbeatSettings,
    Keys,
    OffsetSyncSettings,
)
from mirror.config.layers import Assigned, Layer, Pair, assign, effective, unhonoured
from mirror.config.properties import Entry, Properties, last_wins, read
from mirror.config.values import refusal
from mirror.errors import SettingsError
from mirror.policy import ReplicationPolicy
from mirror.topic_configs import ConfigSync

_OWN_KEYS = (
    "mirror.app.grafana.url",
    "mirror.app.prometheus.url",
    "mirror.metrics.listen",
    "mirror.metrics.max.series",
    "mirror.metrics.strimzi.names",
    "mirror.state.dir",
    "mirror.window.ms",
    "mirror.heartbeats.all.pairs",
    "mirror.lanes",
    "mirror.slots",
    "mirror.poll.interval.ms",
    "mirror.source.group.enabled",
)
_SPARK = "mirror.spark."


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One end of a flow."""

    alias: str
    bootstrap_servers: str  # comma list of host:port
    client: Mapping[str, str]  # Java keys common to all of its clients, bootstrap.servers included

    def __post_init__(self) -> None:
        object.__setattr__(self, "client", Properties(self.client))


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One enabled replication flow with everything its clients need, as Java client properties."""

    source: Cluster
    target: Cluster
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
    grows_topics: bool = True  # remote topics follow the source's partition count; else records are spread over theirs
    source_group: str = ""  # group on the source whose offsets are the positions before there are any, and show them

    def __post_init__(self) -> None:
        for name in ("offset_syncs_producer", "consumer", "producer", "source_admin", "target_admin"):
            object.__setattr__(self, name, Properties(getattr(self, name)))

    @property
    def name(self) -> str:
        """The flow as operators write it: source->target."""
        return f"{self.source.alias}->{self.target.alias}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """This program's own settings, the `mirror.*` keys."""

    app_grafana_url: str = ""  # where the lag inspector finds the boards, "" when it shall not link to any
    app_prometheus_url: str = ""  # where it finds the past
    metrics_listen: tuple[str, int] = ("127.0.0.1", 9404)
    metrics_max_series: int = 250_000
    metrics_strimzi_names: bool = False  # also serve MirrorMaker's measures under the names of Strimzi's exporter rules
    state_dir: Path = Path("state")
    window_ms: int = 10_000
    lanes: int = 2  # 1 or 2
    slots: int = 1  # load() puts the number of processors here unless the file says otherwise
    poll_interval_s: float = 5.0
    source_group_enabled: bool = True  # commit positions to a group on the source too, for every lag tool
    heartbeats_all_pairs: bool = False  # beat for flows that are not enabled too, as MirrorMaker does
    spark: Mapping[str, str] = Properties()  # mirror.spark.X as spark.X

    def __post_init__(self) -> None:
        object.__setattr__(self, "spark", Properties(self.spark))

    @property
    def metrics_address(self) -> str:
        """Where this machine reaches /metrics: an appliance that listens everywhere, on loopback."""
        host, port = self.metrics_listen
        return f"{'127.0.0.1' if host in ('0.0.0.0', '') else host}:{port}"  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """Heartbeats of one pair of clusters, written to the target; `client` are Java properties."""

    source: str
    target: str
    topic: str
    interval_s: float
    replication_factor: int
    client: Properties


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A checked configuration."""

    flows: tuple[Flow, ...]
    beats: tuple[Beat, ...]
    mirror: Mirror
    ignored: tuple[str, ...]  # full keys that change nothing, in file order; for one warning
    ignored_why: Mapping[str, str]  # key -> reason, for those of `ignored` that have one


def load(path: Path, *, options: Mapping[str, str] | None = None, targets: Sequence[str] = ()) -> Settings:
    """Read and check a properties file.

    Args:
        path: The file.
        options: Properties given on the command line; each overrides the file's.
        targets: Aliases; only flows that write to one of them are kept. Empty keeps all.

    Raises:
        SettingsError: One line that says what was found, what was expected, where, and what to do.
    """
    return settings_of(last_wins(read(path)), path, options=options, targets=targets)


def settings_of(
    entries: dict[str, Entry], path: Path, *, options: Mapping[str, str] | None = None, targets: Sequence[str] = ()
) -> Settings:
    """Check properties that are read already; `path` is where they are said to come from. Otherwise as `load`."""
    entries = entries | {key: Entry(key=key, value=value, where="option") for key, value in (options or {}).items()}
    aliases = _aliases(entries, path)
    unknown = [target for target in targets if target not in aliases]
    if unknown:
        declared = ", ".join(aliases)
        raise SettingsError(f'{path}: clusters: unknown alias "{unknown[0]}" asked for, expected one of {declared}.')
    found = assign(entries, aliases)
    mirror = _mirror(found.own)
    enabled = _enabled(found, aliases, path)
    ignored = unhonoured(found, enabled)
    check_placeholders(entries, ignored)
    clusters = {alias: _cluster(found, alias, path) for alias in aliases}
    flows = tuple(_flow(found, pair, clusters) for pair in enabled)
    check_clients(found, enabled, path)
    check_flows(flows, path)
    kept = tuple(flow for flow in flows if not targets or flow.target.alias in targets)
    if not kept:
        raise SettingsError(
            f"{path}: no enabled flow writes to {', '.join(targets)}; enabled are {', '.join(f.name for f in flows)}. "
            "Ask for another cluster or enable a flow."
        )
    beating = tuple(permutations(aliases, 2)) if mirror.heartbeats_all_pairs else enabled
    beats = (_beat(found, Pair(*pair)) for pair in beating if not targets or pair[1] in targets)
    named = tuple(key for key in entries if key in ignored)
    why = Properties((key, ignored[key]) for key in named if ignored[key])
    return Settings(flows=kept, beats=tuple(filter(None, beats)), mirror=mirror, ignored=named, ignored_why=why)


def _aliases(entries: Mapping[str, Entry], path: Path) -> tuple[str, ...]:
    entry = entries.get("clusters")
    aliases = values.text_list(entry) if entry else ()
    if entry is None or not aliases:
        where = entry.where if entry else path
        raise SettingsError(f'{where}: clusters: names no cluster; expected aliases. Write e.g. "primary, backup".')
    if "" in aliases:
        raise refusal(entry, "holds an empty alias; expected names between the commas. Remove the extra comma.")
    twice = [alias for alias in aliases if aliases.count(alias) > 1]
    if twice:
        raise refusal(entry, f'duplicate alias "{twice[0]}"; expected each once. Remove or rename one.')
    return aliases


def _enabled(found: Assigned, aliases: Sequence[str], path: Path) -> tuple[Pair, ...]:
    """Return the pairs to replicate, in the order of `clusters`.

    A top-level enabled=true holds for every pair that does not say otherwise, as in MirrorMaker, whose heartbeats
    start a worker per pair; emit.heartbeats.enabled=false there leaves only pairs that are enabled by name.
    """
    for pair, layer in found.pairs.items():
        if pair.source == pair.target and "enabled" in layer and values.boolean(layer["enabled"]):
            raise refusal(layer["enabled"], "is a flow to itself; expected two clusters. Remove it.")
    enabled = []
    for pair in (Pair(*pair) for pair in permutations(aliases, 2)):
        own = found.pairs.get(pair, {})
        entry = own.get("enabled") or found.top.get("enabled")
        if entry is None or not values.boolean(entry):
            continue
        beats = own.get("emit.heartbeats.enabled") or found.top.get("emit.heartbeats.enabled")
        if "enabled" in own or beats is None or values.boolean(beats):
            enabled.append(pair)
    if not enabled:
        advice = f'Write "{aliases[0]}->{aliases[1]}.enabled = true"' if len(aliases) > 1 else "Name a second cluster"
        spaced = [entry for key, entry in found.top.items() if key in aliases and entry.value.startswith("->")]
        if spaced:
            raise refusal(
                spaced[0], 'a blank ends the key, so this enables no flow. Write "A->B.enabled" without blanks.'
            )
        raise SettingsError(f"{path}: no flow is enabled; expected at least one. {advice}.")
    return tuple(enabled)


def _cluster(found: Assigned, alias: str, path: Path) -> Cluster:
    client = found.common(alias)
    entry = client.get("bootstrap.servers")
    if entry is None or not values.text(entry):
        where = entry.where if entry else path
        raise SettingsError(f'{where}: {alias}.bootstrap.servers: is not set. Write "host:port,host:port".')
    try:
        values.broker_addresses(values.text(entry))
    except ValueError as error:
        raise refusal(entry, f'"{error}" is not host:port. Write "host:port,host:port".') from None
    return Cluster(alias=alias, bootstrap_servers=values.text(entry), client=effective(client))


def _flow(found: Assigned, pair: Pair, clusters: Mapping[str, Cluster]) -> Flow:
    keys = Keys(found.flow(pair))
    offset_syncs = keys.offset_syncs()
    return Flow(
        source=clusters[pair.source],
        target=clusters[pair.target],
        topics=keys.names("topics", DEFAULT_TOPICS_EXCLUDE, "topic.filter.class"),
        policy=keys.policy(pair.source),
        replication_factor=keys.replication_factor("replication.factor", default=2),
        tasks_max=keys.integer("tasks.max", default=1),
        refresh_topics=keys.every("refresh.topics", default=600),
        configs=keys.config_sync(),
        sync_configs=keys.every("sync.topic.configs", default=600),
        sync_acls=keys.every("sync.topic.acls", default=600),
        checkpoints=keys.checkpoints(),
        offset_syncs=offset_syncs,
        heartbeats=keys.heartbeats(),
        offset_syncs_producer=effective(found.offset_syncs_producer(pair, at_source=offset_syncs.at_source)),
        consumer=effective(found.source_client(pair, "consumer")),
        producer=effective(found.producer(pair)),
        source_admin=effective(found.source_client(pair, "admin")),
        target_admin=effective(found.target_admin(pair)),
    )


def _beat(found: Assigned, pair: Pair) -> Beat | None:
    """Return the heartbeats of a pair, None where they are switched off."""
    keys = Keys(found.flow(pair))
    heartbeats = keys.heartbeats()
    if not heartbeats.enabled:
        return None
    return Beat(
        source=pair.source,
        target=pair.target,
        topic=keys.policy(pair.source).heartbeats_topic(),
        interval_s=heartbeats.interval_s,
        replication_factor=heartbeats.replication_factor,
        client=Properties(effective(found.producer(pair))),
    )


def _mirror(own: Layer) -> Mirror:
    for key, entry in own.items():
        if key not in _OWN_KEYS and (not key.startswith(_SPARK) or key == _SPARK):
            near = difflib.get_close_matches(key, _OWN_KEYS, n=1, cutoff=0.0)[0]
            raise refusal(entry, f'is not a setting of this program. Did you mean "{near}"?')
    listen, state = own.get("mirror.metrics.listen"), own.get("mirror.state.dir")
    if state and (not values.text(state) or "\0" in state.value):
        raise refusal(state, "is no path; expected a directory. Name one or leave the key out.")
    lanes = own.get("mirror.lanes")
    strimzi_names = own.get("mirror.metrics.strimzi.names")
    source_group = own.get("mirror.source.group.enabled")
    all_pairs = own.get("mirror.heartbeats.all.pairs")
    poll_ms = _positive(own, "mirror.poll.interval.ms", 5_000)
    spark = {key.removeprefix("mirror."): values.text(entry) for key, entry in own.items() if key.startswith(_SPARK)}
    return Mirror(
        app_grafana_url=_url(own, "mirror.app.grafana.url"),
        app_prometheus_url=_url(own, "mirror.app.prometheus.url"),
        metrics_listen=values.host_port(listen) if listen else ("127.0.0.1", 9404),
        metrics_max_series=_positive(own, "mirror.metrics.max.series", 250_000),
        metrics_strimzi_names=values.boolean(strimzi_names) if strimzi_names else False,
        state_dir=Path(values.text(state)) if state else Path("state"),
        window_ms=_positive(own, "mirror.window.ms", 10_000),
        lanes=values.integer(lanes, least=1, most=2) if lanes else 2,
        slots=_positive(own, "mirror.slots", os.cpu_count() or 1),
        poll_interval_s=poll_ms / 1000,
        source_group_enabled=values.boolean(source_group) if source_group else True,
        heartbeats_all_pairs=values.boolean(all_pairs) if all_pairs else False,
        spark=spark,
    )


def _url(own: Layer, key: str) -> str:
    entry = own.get(key)
    if entry is None:
        return ""
    url = values.text(entry)
    if not url.startswith(("http://", "https://")):
        raise refusal(entry, f'"{url}" is no address. Write one like http://127.0.0.1:9090.')
    return url.rstrip("/")


def _positive(own: Layer, key: str, default: int) -> int:
    entry = own.get(key)
    return values.integer(entry, least=1) if entry else default
