"""Load a connect-mirror-maker.properties into checked settings."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from metrics.http_access import HttpAccess
from mirror.config import values
from mirror.config.checks import check_clients, check_flows
from mirror.config.keys import Keys, refuse_removed
from mirror.config.layers import KeysByOwner, Layer, Layers, Pair, assign, effective, merged, unhonoured
from mirror.config.properties import DEFAULT, Entry, Properties, default_layer, last_wins, read
from mirror.config.providers import resolve
from mirror.config.refusals import notes_on_patterns, refuse_mode_of_no_target, refuse_what_would_differ
from mirror.config.settings import KEYS_OF_MIRROR, ClusterSettings, Flow, HeartbeatFlow, Mirror, Settings
from mirror.config.table import (
    GROUP_KEY,
    OFFSETS_TOPIC_KEY,
    PROCESS_DEFAULTS,
    RECREATED_KEY,
    RPO_KEY,
    SETTINGS,
    TAKEOVER_KEY,
)
from mirror.config.transforms import transforms_of
from mirror.config.values import refusal
from mirror.errors import SettingsError

_SPARK = "mirror.spark."


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The file and the options, sorted by owner and not checked yet."""

    path: Path
    written: tuple[Entry, ...]  # all entries in order, including repeated keys, with placeholders
    entries: Mapping[str, Entry]  # the effective entries, with placeholders replaced
    aliases: tuple[str, ...]
    found: KeysByOwner

    def own(self) -> Layers:
        """Return the layers of the mirror.* keys: all defaults, then the given values."""
        return [default_layer(PROCESS_DEFAULTS), self.found.own]


def load(path: Path, *, options: Mapping[str, str] | None = None, targets: Sequence[str] = ()) -> Settings:
    """Read and check a properties file.

    Args:
        path: The file.
        options: Properties from the command line; each overrides the same property in the file.
        targets: Aliases; only flows into one of them are kept. Empty keeps all flows.

    Raises:
        SettingsError: One line: what was found, what was expected, where, and what to do.
    """
    return checked(sources(path, options), targets=targets)


def sources(path: Path, options: Mapping[str, str] | None = None) -> Sources:
    """Read a properties file and options. Arguments and errors are those of `load`."""
    return gathered(path, read(path), options)


def gathered(path: Path, entries: Iterable[Entry], options: Mapping[str, str] | None = None) -> Sources:
    """Sort entries that were already read, and options; errors name the file by `path`."""
    given = (Entry(key=key, value=value, where="option") for key, value in (options or {}).items())
    written = (*entries, *given)
    counting = resolve(last_wins(written), os.environ)
    aliases = _aliases(counting, path)
    return Sources(path=path, written=written, entries=counting, aliases=aliases, found=assign(counting, aliases))


def checked(given: Sources, *, targets: Sequence[str] = ()) -> Settings:
    """Return the settings. `targets` and errors are those of `load`."""
    path, aliases, found = given.path, given.aliases, given.found
    unknown = [target for target in targets if target not in aliases]
    if unknown:
        declared = ", ".join(aliases)
        raise SettingsError(f'{path}: clusters: unknown alias "{unknown[0]}"; expected one of {declared}.')
    for entry in given.entries.values():
        refuse_removed(entry)
    refuse_what_would_differ(found)
    own = merged(given.own())
    mirror = _mirror(own)
    enabled = _enabled(found, aliases, path)
    refuse_mode_of_no_target(found, enabled)
    ignored = unhonoured(found, enabled)
    clusters = {alias: _cluster(found, alias, path) for alias in aliases}
    flows = tuple(
        _flow(found, pair, clusters, mirror, has_back=Pair(pair.target, pair.source) in enabled) for pair in enabled
    )
    if mirror.drill_enabled and not any(flow.has_canaries for flow in flows):
        raise refusal(
            own["mirror.drill.enabled"],
            "is true, and no flow has a reverse flow, so nothing can be rehearsed. Enable one, or leave this out.",
        )
    check_clients(found, enabled, path)
    check_flows(flows, path)
    kept = tuple(flow for flow in flows if not targets or flow.target.alias in targets)
    if not kept:
        raise SettingsError(
            f"{path}: no enabled flow writes to {', '.join(targets)}; enabled are {', '.join(f.name for f in flows)}. "
            "Name another cluster, or enable a flow."
        )
    pairs = tuple(permutations(aliases, 2)) if mirror.heartbeats_all_pairs else enabled
    heartbeat_flows = (_heartbeat_flow(found, Pair(*pair)) for pair in pairs if not targets or pair[1] in targets)
    named = tuple(key for key in given.entries if key in ignored)
    why = Properties((key, ignored[key]) for key in named if ignored[key])
    return Settings(
        flows=kept,
        heartbeat_flows=tuple(filter(None, heartbeat_flows)),
        mirror=mirror,
        ignored=named,
        ignored_why=why,
        notes=notes_on_patterns(found),
    )


def _aliases(entries: Mapping[str, Entry], path: Path) -> tuple[str, ...]:
    entry = entries.get("clusters")
    aliases = values.text_list(entry) if entry else ()
    if entry is None or not aliases:
        where = entry.where if entry else path
        raise SettingsError(f'{where}: clusters: names no cluster; expected aliases. Write e.g. "primary, backup".')
    if "" in aliases:
        raise refusal(entry, "holds an empty alias; expected names between the commas. Remove the extra comma.")
    if entry.is_provided and not all(any(alias in key for key in entries) for alias in aliases):  # it may be a secret
        raise refusal(entry, "a config provider names a cluster that no key of the file mentions. Correct its value.")
    twice = [alias for alias in aliases if aliases.count(alias) > 1]
    if twice:
        raise refusal(entry, f'duplicate alias "{twice[0]}"; expected each once. Remove or rename one.')
    return aliases


def _enabled(found: KeysByOwner, aliases: Sequence[str], path: Path) -> tuple[Pair, ...]:
    """Return the pairs to replicate, in the order of `clusters`.

    A top-level enabled=true applies to every pair without its own value, as in MirrorMaker. MirrorMaker starts a worker per pair
    because of heartbeats; with emit.heartbeats.enabled=false, only pairs that are enabled by name remain.
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
        heartbeats = own.get("emit.heartbeats.enabled") or found.top.get("emit.heartbeats.enabled")
        if "enabled" in own or heartbeats is None or values.boolean(heartbeats):
            enabled.append(pair)
    if not enabled:
        advice = f'Write "{aliases[0]}->{aliases[1]}.enabled = true"' if len(aliases) > 1 else "Name a second cluster"
        raise SettingsError(f"{path}: no flow is enabled; expected at least one. {advice}.")
    return tuple(enabled)


def _cluster(found: KeysByOwner, alias: str, path: Path) -> ClusterSettings:
    client = found.common(alias)
    entry = merged(client).get("bootstrap.servers")
    if entry is None or not values.text(entry):
        where = entry.where if entry else path
        raise SettingsError(f'{where}: {alias}.bootstrap.servers: is not set. Write "host:port,host:port".')
    try:
        values.broker_addresses(values.text(entry))
    except ValueError as error:
        raise refusal(entry, f'{entry.shown(str(error))} is not host:port. Write "host:port,host:port".') from None
    return ClusterSettings(alias=alias, client=effective(client))


def _flow(
    found: KeysByOwner, pair: Pair, clusters: Mapping[str, ClusterSettings], mirror: Mirror, *, has_back: bool
) -> Flow:
    worker = merged(found.worker(pair))
    offsets_topic, group = worker.get(OFFSETS_TOPIC_KEY), worker.get(GROUP_KEY)
    keys = Keys({**merged(found.flow(pair)), **worker})
    offset_syncs, policy = keys.offset_syncs(), keys.policy(pair.source)
    is_bidirectional, transforms = keys.is_bidirectional(policy), transforms_of(merged(found.flow(pair)))
    return Flow(
        source=clusters[pair.source],
        target=clusters[pair.target],
        topics=keys.names("topics", "topic.filter.class"),
        policy=policy,
        replication_factor=keys["replication.factor"],
        tasks_max=keys["tasks.max"],
        refresh_topics=keys.every("refresh.topics"),
        configs=keys.config_sync(),
        sync_configs=keys.every("sync.topic.configs"),
        sync_acls=keys.every("sync.topic.acls"),
        checkpoints=keys.checkpoints(),
        offset_syncs=offset_syncs,
        connect_offsets_topic=values.text(offsets_topic) if offsets_topic else f"mm2-offsets.{pair.source}.internal",
        connect_groups=(f"{pair.source}-mm2", *((values.text(group),) if group else ())),
        takeover_connectors=keys[TAKEOVER_KEY],
        on_recreated=keys[RECREATED_KEY],
        rpo_objective_s=keys[RPO_KEY],
        transforms=transforms,
        is_bidirectional=is_bidirectional,
        identical_topics=keys.identical_topics(is_bidirectional=is_bidirectional, transforms=transforms),
        transaction_ms=mirror.transaction_ms if keys.is_exactly_once() else 0,
        heartbeats=keys.heartbeats(),
        has_canaries=mirror.drill_enabled and has_back,
        offset_syncs_producer=effective(found.offset_syncs_producer(pair, at_source=offset_syncs.at_source)),
        consumer=effective(found.source_client(pair, "consumer")),
        producer=effective(found.producer(pair)),
        source_admin=effective(found.source_client(pair, "admin")),
        target_admin=effective(found.target_admin(pair)),
    )


def _heartbeat_flow(found: KeysByOwner, pair: Pair) -> HeartbeatFlow | None:
    """Return the heartbeats of a pair, None if they are disabled."""
    keys = Keys(merged(found.flow(pair)))
    heartbeats = keys.heartbeats()
    if not heartbeats.enabled:
        return None
    return HeartbeatFlow(
        source=pair.source,
        target=pair.target,
        topic=keys.policy(pair.source).heartbeats_topic(),
        interval_s=heartbeats.interval_s,
        replication_factor=heartbeats.replication_factor,
        client=effective(found.producer(pair)),
    )


def _mirror(own: Layer) -> Mirror:
    for key, entry in own.items():
        if key not in PROCESS_DEFAULTS and (not key.startswith(_SPARK) or key == _SPARK):
            near = difflib.get_close_matches(key, PROCESS_DEFAULTS, n=1, cutoff=0.0)[0]
            raise refusal(entry, f'is not a setting of this program. Did you mean "{near}"?')
    read = {name: SETTINGS[key].read(own[key]) for name, key in KEYS_OF_MIRROR.items()}
    if read["drill_interval_s"] and not read["drill_enabled"]:
        raise refusal(
            own["mirror.drill.interval.seconds"],
            "has no effect while mirror.drill.enabled is false. Set that to true, or leave this out.",
        )
    spark = {key.removeprefix("mirror."): entry for key, entry in own.items() if key.startswith(_SPARK)}
    return Mirror(
        **read,
        http=_access(own),
        is_listen_default=own["mirror.metrics.listen"].where == DEFAULT,
        is_state_default=own["mirror.state.dir"].where == DEFAULT,
        spark=effective([spark]),
    )


def _access(own: Layer) -> HttpAccess:
    username, password, certificate, key = (
        own[f"mirror.http.{name}"] for name in ("username", "password", "tls.certificate", "tls.key")
    )
    if bool(values.text(username)) != bool(password.value):
        raise refusal(
            password if password.value else username,
            "needs the other one; give both mirror.http.username and .password.",
        )
    if ":" in values.text(username):
        raise refusal(username, "holds a colon, which no login by HTTP can have. Choose another name.")
    if values.text(key) and not values.text(certificate):
        raise refusal(key, "is a key without a certificate. Name it as mirror.http.tls.certificate.")
    access = HttpAccess(
        username=values.text(username),
        password=password.value,
        certificate=values.text(certificate),
        key=values.text(key),
    )
    try:
        access.server_context()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise refusal(
            certificate, f"cannot be used ({reason}). Name a PEM file with the certificate, and its key."
        ) from None
    return access
