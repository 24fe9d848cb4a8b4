"""Translate connectors into lines of a properties file. Pure.

`A->B.KEY` of a properties file is by MirrorMaker's own definition what KEY is in the settings of a connector, so most keys
only get their flow in front. The others are a cluster's connection, what a connector leaves to its worker, and keys that it
does not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mirror.config.imports.connectors import SOURCE_ALIAS, TARGET_ALIAS, Connector, Found, Role, Setting
from mirror.config.imports.items import Item
from mirror.config.imports.secrets import USUAL, providers_in, without_kubernetes
from mirror.config.keys import EXACTLY_ONCE_KEY, OFFSETS_TOPIC_KEY, TAKEOVER_KEY
from mirror.config.layers import is_common
from mirror.config.properties import HIDDEN, is_secret
from mirror.config.providers import is_provider_key

# Keys that one connector reads alone; of MirrorSourceConfig, MirrorCheckpointConfig and MirrorHeartbeatConfig of Kafka 4.1.1.
_READERS = {
    Role.SOURCE: {
        "config.properties.exclude",
        "config.property.filter.class",
        "emit.offset-syncs.enabled",
        "heartbeats.replication.enabled",
        "offset-syncs.topic.replication.factor",
        "offset.lag.max",
        "refresh.topics.enabled",
        "refresh.topics.interval.seconds",
        "replication.factor",
        "sync.topic.acls.enabled",
        "sync.topic.acls.interval.seconds",
        "sync.topic.configs.enabled",
        "sync.topic.configs.interval.seconds",
        "tasks.max",
        "use.defaults.from",
    },
    Role.CHECKPOINT: {
        "checkpoints.topic.replication.factor",
        "emit.checkpoints.enabled",
        "emit.checkpoints.interval.seconds",
        "group.filter.class",
        "groups",
        "groups.exclude",
        "refresh.groups.enabled",
        "refresh.groups.interval.seconds",
        "sync.group.offsets.enabled",
        "sync.group.offsets.interval.seconds",
    },
    Role.HEARTBEAT: {
        "emit.heartbeats.enabled",
        "emit.heartbeats.interval.seconds",
        "heartbeats.topic.replication.factor",
    },
}
_READER = {key: role for role, keys in _READERS.items() for key in keys}
# Of every connector in Connect, with what makes them needless.
_OF_CONNECT = {
    "connector.plugin.version": "there is no connector",
    "name": "there is no connector",
    "config.action.reload": "a file is read at the start",
    "metric.reporters": "metrics are served for Prometheus",
    "tasks.max.enforce": "slots share the topic-partitions",
}
_OF_CONNECT_PREFIXES = {
    "errors.": "a record that cannot be written stops its topic-partition alone, until it can",
    "transforms.": "of transforms",
    "predicates.": "of predicates",
    "topic.creation.": "topics are created as their source is",
    "transaction.boundary": "a transaction lasts as long as mirror.transaction.ms says",
    "consumer.override.": "of connectors that read from Connect's own cluster",
    "admin.override.": "of Connect's worker",
}
_SWITCHES = {
    Role.SOURCE: "enabled",
    Role.CHECKPOINT: "emit.checkpoints.enabled",
    Role.HEARTBEAT: "emit.heartbeats.enabled",
}
_NOT_SEEN = "the flow has no MirrorSourceConnector, so nothing is mirrored; remove the line to mirror its topics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """What an import comes to."""

    items: tuple[Item, ...]  # in the order of their lines
    notes: tuple[str, ...] = ()  # what no source tells


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flow:
    """The connectors of one flow, those that win first."""

    source: str
    target: str
    connectors: Sequence[Connector]

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    def of(self, role: Role) -> Connector | None:
        return next((each for each in self.connectors if each.role is role), None)


def translate(found: Found, offsets_topic: str = "") -> Translation:
    """Return the lines that do what the connectors do, and what becomes of each setting.

    Args:
        found: What the sources hold.
        offsets_topic: Where Connect keeps positions, "" where nobody said.
    """
    flows = _flows(found.connectors)
    aliases = dict.fromkeys(alias for flow in flows for alias in (flow.source, flow.target))
    items = [*found.others]
    if flows:
        items.append(Item(found="cluster aliases", where=_places(flows), key="clusters", value=", ".join(aliases)))
    for flow in flows:
        items += _of_flow(flow)
    for alias, settings in found.workers.items():
        items += [_of_worker(alias, without_kubernetes(setting)) for setting in settings]
    if offsets_topic:
        where = "--offsets-topic"
        items += [
            Item(found=OFFSETS_TOPIC_KEY, where=where, key=f"{target}.{OFFSETS_TOPIC_KEY}", value=offsets_topic)
            for target in dict.fromkeys(flow.target for flow in flows)
        ]
    joined = _joined(items)
    return Translation(items=(*joined, *_providers(joined)), notes=tuple(_notes(flows, found, joined)))


def _flows(connectors: Iterable[Connector]) -> list[_Flow]:
    """Return the flows in the order in which they were found."""
    by_flow: dict[tuple[str, str], list[Connector]] = {}
    for connector in connectors:
        by_flow.setdefault(connector.flow, []).append(connector)
    order = list(Role)
    return [
        _Flow(source=source, target=target, connectors=sorted(those, key=lambda each: order.index(each.role)))
        for (source, target), those in by_flow.items()
    ]


def _places(flows: Iterable[_Flow]) -> str:
    return ", ".join(dict.fromkeys(each.where for flow in flows for each in flow.connectors))


def _of_flow(flow: _Flow) -> Iterator[Item]:
    source = flow.of(Role.SOURCE)
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
            switch = f"{flow}.{_SWITCHES[connector.role]}"
            paused = Item(found="state", where=connector.where)
            yield paused.by_hand(f"it is {connector.state}, and would run here; set {switch} as you want it")
        for setting in map(without_kubernetes, connector.settings):
            item = _of_connector(flow, connector, setting)
            if item is not None:
                yield item.by_hand(setting.to_do) if setting.to_do else item


def _of_connector(flow: _Flow, connector: Connector, setting: Setting) -> Item | None:
    """Return what becomes of a setting of a connector; None where another item tells of it."""
    key, role = setting.key, connector.role
    item = Item(found=key, where=setting.where, value=setting.value)
    if key in (SOURCE_ALIAS, TARGET_ALIAS, "enabled", "connector.class") or (key == "name" and role is Role.SOURCE):
        return None
    if why := _of_connect(key, setting.value):
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
    reader = _READER.get(key, role)
    if reader is not role:
        other = flow.of(reader)
        is_same = other is not None and other.value(key) == setting.value
        return None if is_same else item.left_out(f"a {role.value} does not read it; {reader.value} does")
    return _line(item, f"{flow}.{_name_in_flow(connector, key)}")


def _line(item: Item, key: str) -> Item:
    return Item(found=item.found, where=item.where, key=key, value=item.value)


def _of_connect(key: str, value: str) -> str:
    """Return why a key of every connector is needless here, "" for another one."""
    if key in ("transforms", "predicates"):
        return "" if value.strip() else "is empty"
    return _OF_CONNECT.get(key) or next(
        (why for prefix, why in _OF_CONNECT_PREFIXES.items() if key.startswith(prefix)), ""
    )


def _about_positions(flow: _Flow, role: Role, item: Item) -> Item:
    """Return what a connector asks of Connect about its positions, as the target's own keys."""
    if role is not Role.SOURCE:
        return item.left_out("only the positions of records count")
    if item.found == "offsets.storage.topic":
        return _line(item, f"{flow.target}.{OFFSETS_TOPIC_KEY}")
    if item.value.strip().lower() != "required":
        return item.left_out(f"{EXACTLY_ONCE_KEY} of the worker decides")
    return Item(
        found=item.found, where=item.where, key=f"{flow.target}.{EXACTLY_ONCE_KEY}", value="enabled"
    )  # Connect refuses such a connector where the worker has it not


def _name_in_flow(connector: Connector, key: str) -> str:
    """Return the name of a key behind `A->B.`.

    A cluster's own connection beats `A->B.consumer.ssl.x`, as in MirrorMaker, and not `A->B.source.consumer.ssl.x`.
    """
    closer = f"source.{key}"
    is_connection = key.startswith("consumer.") and is_common(key.removeprefix("consumer."))
    return closer if is_connection and connector.value(closer) is None else key


def _of_worker(alias: str, setting: Setting) -> Item:
    """Return what becomes of a setting of Connect's worker that writes to a target."""
    key = setting.key
    item = Item(found=key, where=setting.where, value=setting.value)
    if is_provider_key(key):
        line = _line(item, key)
    elif key.startswith(("consumer.", "admin.")):
        return item.left_out("a client of Connect's worker, which is not there")
    else:
        line = _line(item, f"{alias}.{key}")
    return line.by_hand(setting.to_do) if setting.to_do else line


def _joined(items: Iterable[Item]) -> list[Item]:
    """Return the items with one for each line: the first wins, and one that differs from it is named."""
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
            found[key] = first.by_hand(f"{first.where} says {ours}, {item.where} says {named}; the first is written")
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


def _providers(items: Sequence[Item]) -> Iterator[Item]:
    """Yield the lines that declare the config providers which values refer to, where none does yet."""
    declared = {item.key for item in items}
    if "config.providers" in declared:
        return
    users: dict[str, str] = {}
    for item in items:
        for name in providers_in(item.value) if item.is_line else ():
            users.setdefault(name, item.where)
    known = {name: where for name, where in users.items() if name in USUAL}
    if known:
        where = next(iter(known.values()))
        yield Item(found="config.providers", where=where, key="config.providers", value=", ".join(known))
    for name, where in known.items():
        yield Item(found=f"${{{name}:...}}", where=where, key=f"config.providers.{name}.class", value=USUAL[name])
    for name, where in users.items():
        if name not in known:
            yield Item(found=f"${{{name}:...}}", where=where).by_hand(
                "no config provider of Kafka has this name; write the value's reference as one of file, directory or env"
            )


def _notes(flows: Sequence[_Flow], found: Found, items: Sequence[Item]) -> Iterator[str]:
    """Yield what no source tells and a person may know."""
    lines: Mapping[str, Item] = {item.key: item for item in items if item.is_line}
    for flow in flows:
        if any(each.role is Role.SOURCE and not each.name for each in flow.connectors):
            yield (
                f"The name of the MirrorSourceConnector of {flow} is not told. Write it as {flow}.{TAKEOVER_KEY}, or the flow "
                "does not begin where the connector stopped."
            )
    for target in dict.fromkeys(flow.target for flow in flows):
        if target in found.workers:
            continue
        if f"{target}.{EXACTLY_ONCE_KEY}" not in lines:
            yield (
                f"Settings of Connect's worker are not seen here. If it has {EXACTLY_ONCE_KEY}=enabled, write "
                f"{target}.{EXACTLY_ONCE_KEY} = enabled; its producer.* are {target}.producer.*."
            )
        if f"{target}.{OFFSETS_TOPIC_KEY}" not in lines:
            yield (
                f"Where Connect keeps positions is a setting of its worker. Give it as --offsets-topic, or write "
                f"{target}.{OFFSETS_TOPIC_KEY}, or the flow does not begin where the connector stopped."
            )
