"""Translate connectors into lines of a properties file. Pure.

In MirrorMaker, `A->B.KEY` of a properties file is KEY of the connector from A to B. So most keys only get their flow as a
prefix. Three kinds are translated separately: connections of clusters, settings that a connector leaves to its worker, and keys
that a connector does not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mirror.config.imports.connectors import (
    CLIENTS,
    READER,
    SOURCE_ALIAS,
    TARGET_ALIAS,
    Connector,
    ConnectorFlow,
    Connectors,
    Item,
    Role,
    Setting,
    flows_of,
    needless_of_connect,
)
from mirror.config.imports.secrets import provider_items, without_kubernetes
from mirror.config.layers import is_common
from mirror.config.properties import HIDDEN, is_secret
from mirror.config.providers import is_provider_key
from mirror.config.table import EXACTLY_ONCE_KEY, FLOW_DEFAULTS, FLOW_KEYS, OFFSETS_TOPIC_KEY, TAKEOVER_KEY
from mirror.config.transforms import is_of_transforms

_SWITCHES = {
    Role.SOURCE: "enabled",
    Role.CHECKPOINT: "emit.checkpoints.enabled",
    Role.HEARTBEAT: "emit.heartbeats.enabled",
}
_NOT_SEEN = "the flow has no MirrorSourceConnector, so nothing is mirrored; remove the line to mirror its topics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The result of an import."""

    items: tuple[Item, ...]  # in the order of the lines
    notes: tuple[str, ...] = ()  # about facts that no source contains


def translate(found: Connectors, offsets_topic: str = "") -> Translation:
    """Return the lines that replace the connectors, and the result of each setting.

    Args:
        found: The content of the sources.
        offsets_topic: Connect's topic of positions, "" if not given.
    """
    flows = flows_of(found.connectors)
    aliases = dict.fromkeys(alias for flow in flows for alias in (flow.source, flow.target))
    items = [*found.others]
    if flows:
        items.append(Item(found="cluster aliases", where=_places(flows), key="clusters", value=", ".join(aliases)))
    for flow in flows:
        items += _of_flow(flow)
    for alias, settings in found.workers.items():
        others = (without_kubernetes(each) for each in settings if not is_provider_key(each.key))
        items += [_of_worker(alias, setting) for setting in others]
    if offsets_topic:
        where = "--offsets-topic"
        items += [
            Item(found=OFFSETS_TOPIC_KEY, where=where, key=f"{target}.{OFFSETS_TOPIC_KEY}", value=offsets_topic)
            for target in dict.fromkeys(flow.target for flow in flows)
        ]
    joined = _joined(items)
    return Translation(
        items=(*joined, *provider_items(joined, found.workers)), notes=tuple(_notes(flows, found, joined))
    )


def _places(flows: Iterable[ConnectorFlow]) -> str:
    return ", ".join(dict.fromkeys(each.where for flow in flows for each in flow.connectors))


def _of_flow(flow: ConnectorFlow) -> Iterator[Item]:
    source = flow.source_connector
    enabled = f"{flow}.enabled"
    if source is None:
        off = Item(found=Role.SOURCE.value, where="not there", key=enabled, value="false")
        yield off.by_hand(_NOT_SEEN)
    else:
        value = source.value("enabled") or "true"
        yield Item(found=Role.SOURCE.value, where=source.where, key=enabled, value=value)
    names = dict.fromkeys(each.name for each in flow.connectors if each.role is Role.SOURCE and each.name)
    if source is not None and set(names) - {Role.SOURCE.value}:
        yield Item(found="name", where=source.where, key=f"{flow}.{TAKEOVER_KEY}", value=", ".join(names))
    for role, key in _SWITCHES.items():
        if role is not Role.SOURCE and flow.of(role) is None:
            yield Item(found=role.value, where="not there", key=f"{flow}.{key}", value="false")
    for connector in flow.connectors:
        if connector.state:
            yield _paused(flow, connector)
        for setting in map(without_kubernetes, connector.settings):
            item = _of_connector(flow, connector, setting)
            if item is not None:
                yield item.by_hand(setting.to_do) if setting.to_do else item


def _paused(flow: ConnectorFlow, connector: Connector) -> Item:
    """Return the result for a paused or stopped connector: for the whole flow, or for the connector alone."""
    state = Item(found="state", where=connector.where)
    if flow.source_connector is None or flow.source_connector.state:
        return state.left_out(f"it is {connector.state}; the flow runs as soon as kafka-mirror run starts")
    switch = f"{flow}.{_SWITCHES[connector.role]}"
    return state.by_hand(f"it is {connector.state}, and kafka-mirror would run it; set {switch} as you want it")


def _of_connector(flow: ConnectorFlow, connector: Connector, setting: Setting) -> Item | None:
    """Return the result of a connector's setting; None if another item covers it."""
    key, role = setting.key, connector.role
    item = Item(found=key, where=setting.where, value=setting.value)
    if key in (SOURCE_ALIAS, TARGET_ALIAS, "enabled", "connector.class") or (key == "name" and role is Role.SOURCE):
        return None
    if is_of_transforms(key) and role is not Role.SOURCE and setting.value.strip():
        return item.by_hand("it changes records of this connector itself, which is not supported; remove it")
    if why := needless_of_connect(key, setting.value):
        return item.left_out(why)
    if key in ("exactly.once.support", "offsets.storage.topic"):
        return _about_positions(flow, role, item)
    for side, alias in (("source.cluster.", flow.source), ("target.cluster.", flow.target)):
        if key.startswith(side):
            name = key.removeprefix(side)
            line = _line(item, f"{alias}.{name}")
            return line if is_common(name) else item.left_out("MirrorMaker's clients do not read it either")
    if key.startswith("producer.override.") and role is not Role.SOURCE:
        return item.left_out("checkpoints and heartbeats are written by the clients that write records")
    reader = READER.get(key, role)
    if reader is not role:
        other = flow.of(reader)
        is_same = other is not None and other.value(key) == setting.value
        return None if is_same else item.left_out(f"a {role.value} does not read it; {reader.value} does")
    return _of_all(flow, connector, item)


def _of_all(flow: ConnectorFlow, connector: Connector, item: Item) -> Item | None:
    """Return the result of a key that other connectors may have too.

    In kafka-mirror such a key applies to the whole flow, so the source connector, which mirrors the records, decides.
    """
    key, source = item.found, flow.source_connector
    theirs = source.value(key) if source is not None else item.value
    if connector is not source and key not in READER and theirs != item.value:
        if _is_of_clients(key):
            return item.left_out("setting of a client that reads offset syncs; kafka-mirror has no such client")
        if theirs is None and (key in FLOW_KEYS or key.startswith(CLIENTS)):
            return _of_another_alone(flow, item)
    if key.startswith(("admin.", "producer.")) and is_common(key.partition(".")[2]):
        return item.by_hand(
            f"a cluster's own connection overrides it; write {flow}.source.{key} or {flow}.target.{key}"
        )
    return _line(item, f"{flow}.{_name_in_flow(connector, key)}")


def _is_of_clients(key: str) -> bool:
    """Return whether a key belongs to one kind of client and sets no connection."""
    client = next((prefix for prefix in CLIENTS if key.startswith(prefix)), None)
    return client is not None and not is_common(key.removeprefix(client))


def _of_another_alone(flow: ConnectorFlow, item: Item) -> Item:
    """Return the result of a key that the source connector does not set."""
    if FLOW_DEFAULTS.get(item.found) == item.value:
        return item.left_out("is the default")
    what = f"{Role.SOURCE.value} does not set it, and kafka-mirror applies it to the whole flow"
    return item.by_hand(f"{what}; write {flow}.{item.found} if you want that")


def _line(item: Item, key: str) -> Item:
    return Item(found=item.found, where=item.where, key=key, value=item.value)


def _about_positions(flow: ConnectorFlow, role: Role, item: Item) -> Item:
    """Return a connector's settings about its positions as keys of the target."""
    if role is not Role.SOURCE:
        return item.left_out("only the positions of records count")
    if item.found == "offsets.storage.topic":
        return _line(item, f"{flow.target}.{OFFSETS_TOPIC_KEY}")
    if item.value.strip().lower() != "required":
        return item.left_out(f"{EXACTLY_ONCE_KEY} of the worker decides")
    # Connect refuses such a connector if the worker lacks the setting.
    return Item(found=item.found, where=item.where, key=f"{flow.target}.{EXACTLY_ONCE_KEY}", value="enabled")


def _name_in_flow(connector: Connector, key: str) -> str:
    """Return the name of a key after `A->B.`.

    A cluster's own connection overrides `A->B.consumer.ssl.x`, as in MirrorMaker, but not `A->B.source.consumer.ssl.x`.
    """
    closer = f"source.{key}"
    is_connection = key.startswith("consumer.") and is_common(key.removeprefix("consumer."))
    return closer if is_connection and connector.value(closer) is None else key


def _of_worker(alias: str, setting: Setting) -> Item:
    """Return the result of a setting of Connect's worker, which writes to a target."""
    item = Item(found=setting.key, where=setting.where, value=setting.value)
    if setting.key.startswith(("consumer.", "admin.")):
        return item.left_out("setting of a Connect worker's client; kafka-mirror has no Connect worker")
    line = _line(item, f"{alias}.{setting.key}")
    return line.by_hand(setting.to_do) if setting.to_do else line


def _joined(items: Iterable[Item]) -> list[Item]:
    """Return the items, one per line. The first item wins, and names items with other values."""
    found: dict[object, Item] = {}
    for number, item in enumerate(items):
        key: object = item.key if item.is_line else number
        first = found.get(key)
        if first is None:
            found[key] = item
        elif first.value == item.value:
            found[key] = _together(first, item)
        else:
            named = HIDDEN if is_secret(item.key) else f'"{item.value}"'
            ours = HIDDEN if is_secret(first.key) else f'"{first.value}"'
            found[key] = first.by_hand(f"{first.where} has {ours}, {item.where} has {named}; the first is written")
    return list(found.values())


def _together(first: Item, second: Item) -> Item:
    places = ", ".join(dict.fromkeys([*first.where.split(", "), second.where]))
    return Item(
        found=first.found,
        where=places,
        state=first.state,
        key=first.key,
        value=first.value,
        why=first.why or second.why,
    )


def _notes(flows: Sequence[ConnectorFlow], found: Connectors, items: Sequence[Item]) -> Iterator[str]:
    """Yield notes about facts that no source contains."""
    lines: Mapping[str, Item] = {item.key: item for item in items if item.is_line}
    for flow in flows:
        if any(each.role is Role.SOURCE and not each.name for each in flow.connectors):
            yield (
                f"The name of the MirrorSourceConnector of {flow} is unknown. Write it as {flow}.{TAKEOVER_KEY}, or the flow "
                "does not resume where the connector stopped."
            )
    unseen = [target for target in dict.fromkeys(flow.target for flow in flows) if target not in found.workers]
    for target in unseen:
        yield (
            f"The import does not see the settings of Connect's worker. Write its producer.* as {target}.producer.*. Records go "
            f"to {target}.bootstrap.servers; Connect wrote them to its worker's cluster. Bytes stay unchanged."
        )
        if f"{target}.{EXACTLY_ONCE_KEY}" not in lines:
            yield f"If the worker has {EXACTLY_ONCE_KEY} = enabled, write {target}.{EXACTLY_ONCE_KEY} = enabled."
        if f"{target}.{OFFSETS_TOPIC_KEY}" not in lines:
            yield (
                f"Connect's topic of positions is a setting of its worker. Give it as --offsets-topic, or write "
                f"{target}.{OFFSETS_TOPIC_KEY}, or the flow does not resume where the connector stopped."
            )
    if len(unseen) > 1:
        yield "Connect stores positions on its worker's cluster: flows into another cluster do not find them."
