"""Refuse configurations that would fail or loop: client properties, shared brokers, loops. Asks no cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mirror.config.clients import Role, check
from mirror.config.layers import KeysByOwner, Layers, Pair, effective, merged
from mirror.config.properties import is_provided
from mirror.config.table import BIDIRECTIONAL_KEY
from mirror.config.values import ClientError, broker_addresses, refusal
from mirror.errors import SettingsError
from mirror.policy.naming import IdentityReplicationPolicy

if TYPE_CHECKING:
    from mirror.config.settings import Flow


def check_clients(found: KeysByOwner, pairs: Iterable[Pair], path: Path) -> None:
    """Refuse client properties from which no client can be built, naming the wrong entry."""
    for pair in pairs:
        clients: list[tuple[Role, str, Layers]] = [
            ("consumer", f"{pair.source}.consumer", found.source_client(pair, "consumer")),
            ("producer", f"{pair.target}.producer", found.producer(pair)),
            ("admin", f"{pair.source}.admin", found.source_client(pair, "admin")),
            ("admin", f"{pair.target}.admin", found.target_admin(pair)),
        ]
        for role, owner, layers in clients:
            try:
                check(role, effective(layers))
            except ClientError as error:
                entry = merged(layers).get(error.key)
                if entry is not None:
                    raise refusal(entry, error.complaint) from None
                raise SettingsError(f"{path}: {owner}.{error.key}: {error.complaint}") from None


def check_flows(flows: Sequence[Flow], path: Path) -> None:
    """Refuse flows whose ends are one cluster, and flows whose topic names form a loop."""
    for flow in flows:
        _check_addresses(flow, path)
        if not isinstance(flow.policy, IdentityReplicationPolicy) and re.search(r"[^a-zA-Z0-9._-]", flow.source.alias):
            raise SettingsError(
                f'{path}: clusters: alias "{flow.source.alias}" cannot start the topic names of {flow.name}; expected '
                'letters, digits, ".", "_" and "-". Rename it or use IdentityReplicationPolicy.'
            )
    targets: dict[str, set[str]] = {}
    for flow in flows:
        targets.setdefault(flow.source.alias, set()).add(flow.target.alias)
    by_name = {flow.name: flow for flow in flows}
    for flow in flows:
        if flow.source.alias not in _reachable(targets, flow.target.alias):
            continue
        if flow.is_bidirectional:
            _check_bidirectional(flow, by_name.get(f"{flow.target.alias}->{flow.source.alias}"), targets, path)
            continue
        if isinstance(flow.policy, IdentityReplicationPolicy):
            raise SettingsError(
                f"{path}: {flow.name}.replication.policy.class: IdentityReplicationPolicy while other flows lead from "
                f"{flow.target.alias} back to {flow.source.alias}; records would go round in a loop. "
                "Disable one direction, use DefaultReplicationPolicy, or replicate each record once in both directions: "
                f"{BIDIRECTIONAL_KEY} = true."
            )
        if flow.policy.separator in flow.source.alias:
            raise SettingsError(
                f'{path}: {flow.name}.replication.policy.separator: is part of the alias "{flow.source.alias}" and '
                "flows lead back to it; records would go round in a loop. "
                "Rename the alias or choose another separator."
            )


def _check_bidirectional(flow: Flow, back: Flow | None, targets: Mapping[str, set[str]], path: Path) -> None:
    """Refuse a bidirectional identity flow if other flows or settings would form a loop."""
    where = f"{path}: {flow.name}.{BIDIRECTIONAL_KEY}"
    if back is not None and not back.is_bidirectional:
        raise SettingsError(
            f"{where}: is true, but not for {back.name}; expected true for both. Set it for {back.name} too."
        )
    others = {
        alias: found - {flow.source.alias} if alias == flow.target.alias else found for alias, found in targets.items()
    }
    if back is None or flow.source.alias in _reachable(others, flow.target.alias):
        raise SettingsError(
            f"{where}: is true, and flows lead from {flow.target.alias} back to {flow.source.alias} through other clusters; "
            "records would arrive twice. Expected one flow in each direction between two clusters. Disable the others."
        )
    if flow.has_canaries:
        raise SettingsError(f"{where}: is true, so there is no switch to rehearse. Leave mirror.drill.enabled out.")
    for key, is_both in (
        ("sync.topic.configs.enabled", flow.sync_configs.enabled and back.sync_configs.enabled),
        ("sync.topic.acls.enabled", flow.sync_acls.enabled and back.sync_acls.enabled),
    ):
        if is_both:
            raise SettingsError(
                f"{path}: {flow.name}.{key}: is true both ways between topics of the same names: a change on one "
                f"cluster could be reverted from the other. Write {back.name}.{key} = false, or {flow.name}.{key} = false."
            )


def _check_addresses(flow: Flow, path: Path) -> None:
    source = {*_brokers(flow.source.client), *_brokers(flow.consumer)}
    target = {*_brokers(flow.target.client), *_brokers(flow.producer)}
    shared = sorted(source & target)
    if shared:
        clients = (flow.source.client, flow.consumer, flow.target.client, flow.producer)
        is_hidden = any(is_provided(client, "bootstrap.servers") for client in clients)
        broker = "a broker" if is_hidden else f"the broker {shared[0]}"
        raise SettingsError(
            f"{path}: {flow.name}: {flow.source.alias} and {flow.target.alias} share {broker}; expected "
            f"two clusters. Correct {flow.source.alias}.bootstrap.servers or {flow.target.alias}.bootstrap.servers."
        )


def _brokers(client: Mapping[str, str]) -> list[str]:
    """Return broker addresses; this host has the same name in all of them."""
    return [
        re.sub(r"^(localhost|\[::1\]):", "127.0.0.1:", item) for item in broker_addresses(client["bootstrap.servers"])
    ]


def _reachable(targets: Mapping[str, set[str]], start: str) -> set[str]:
    """Return all aliases that records from `start` can reach."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        alias = waiting.pop()
        if alias not in seen:
            seen.add(alias)
            waiting += targets.get(alias, ())
    return seen
