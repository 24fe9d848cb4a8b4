"""Decide which cluster, flow or client owns each property, and which of several entries wins.

The rules are MirrorMaker's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from mirror.config.clients import Role, is_mapped
from mirror.config.keys import needless
from mirror.config.properties import Entry, Properties, default_layer
from mirror.config.providers import honoured_keys, is_provider_key
from mirror.config.table import FLOW_DEFAULTS, FLOW_KEYS, TARGET_DEFAULTS, TARGET_KEYS
from mirror.config.transforms import UNNAMED, is_named, is_of_transforms
from mirror.config.values import refusal, text

Layer = dict[str, Entry]  # Java name without prefix -> the entry that sets it
Layers = Sequence[Layer]  # entries for the keys of one owner, weakest layer first

_OWN_PREFIX = "mirror."
_FLOW_DEFAULTS = default_layer(FLOW_DEFAULTS)
_TARGET_DEFAULTS = default_layer(TARGET_DEFAULTS)


class Pair(NamedTuple):
    """The two aliases of a flow, which may be undeclared or disabled."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysByOwner:
    """All entries by owner, without prefixes."""

    top: Layer = field(default_factory=dict)
    own: Layer = field(default_factory=dict)  # mirror.* keys, with the prefix
    clusters: dict[str, Layer] = field(default_factory=dict)
    pairs: dict[Pair, Layer] = field(default_factory=dict)

    def common(self, alias: str) -> Layers:
        """Return a cluster's bootstrap.servers, security.protocol, ssl.* and sasl.*; its own keys override top-level ones."""
        return [_only_common(self.top), _only_common(self.clusters[alias])]

    def flow(self, pair: Pair) -> Layers:
        """Return the layers of the flow's own keys: all defaults, x, A->B.x; later wins."""
        return [_FLOW_DEFAULTS, _only_flow(self.top), _only_flow(self.pairs.get(pair, {}))]

    def source_client(self, pair: Pair, role: Role) -> Layers:
        """Return the layers of a client of the source; see _scoped."""
        return self._scoped(pair, pair.source, "source", role)

    def target_admin(self, pair: Pair) -> Layers:
        """Return the layers of the target's admin client; see _scoped."""
        return self._scoped(pair, pair.target, "target", "admin")

    def offset_syncs_producer(self, pair: Pair, *, at_source: bool) -> Layers:
        """Return the layers of the client that writes offset syncs; see _scoped."""
        if at_source:
            return self._scoped(pair, pair.source, "source", "producer")
        return self._scoped(pair, pair.target, "target", "producer")

    def worker(self, pair: Pair) -> Layers:
        """Return the layers of the Connect worker that wrote to the target: defaults, x, B.x; later wins."""
        return [_TARGET_DEFAULTS, _only_worker(self.top), _only_worker(self.clusters[pair.target])]

    def producer(self, pair: Pair) -> Layers:
        """Return the layers of the data producer; later wins.

                B's common keys; B.producer.*; A->B.producer.override.*.

        A->B.producer.* is not included: in MirrorMaker, only the offset-syncs producer reads it.
        """
        return [
            *self.common(pair.target),
            _stripped(self.clusters[pair.target], "producer."),
            _stripped(self.pairs.get(pair, {}), "producer.override."),
        ]

    def _scoped(self, pair: Pair, alias: str, side: str, role: Role) -> Layers:
        """Return the layers of a client in MirrorMaker's order; later wins.

        A.<common>; A->B.source.cluster.<common>; A->B.<role>.*; A.<common> again, unless A.<role>.* sets it;
        A.<role>.*; A->B.source.<role>.*. So A.consumer.x beats A->B.consumer.x.
        """
        flow, cluster, common = self.pairs.get(pair, {}), self.clusters[alias], self.common(alias)
        return [
            *common,
            _only_common(_stripped(flow, f"{side}.cluster.")),
            _stripped(flow, f"{role}."),
            *common,
            _stripped(cluster, f"{role}."),
            _stripped(flow, f"{side}.{role}."),
        ]


def ranked(layers: Layers, key: str) -> list[Entry]:
    """Return the entries that set `key`: the winner first, then the overridden ones."""
    return list(dict.fromkeys(layer[key] for layer in reversed(layers) if key in layer))


def merged(layers: Layers) -> Layer:
    """Return the winning entry of each key, from the last layer that has the key."""
    winning: Layer = {}
    for layer in layers:
        winning |= layer
    return winning


def effective(layers: Layers) -> Properties:
    """Return the winning values as text, trimmed as Kafka trims them."""
    layer = merged(layers)
    provided = (key for key, entry in layer.items() if entry.is_provided)
    templates = {key: entry.template for key, entry in layer.items() if entry.template is not None}
    return Properties({key: text(entry) for key, entry in layer.items()}, provided=provided, templates=templates)


def assign(entries: Mapping[str, Entry], aliases: Iterable[str]) -> KeysByOwner:
    """Sort entries by owner; if several aliases fit a key, the longest wins.

    Raises:
        SettingsError: A key names a flow with an alias that `clusters` does not declare.
    """
    longest_first = sorted(aliases, key=len, reverse=True)
    pairs = sorted((Pair(*pair) for pair in product(longest_first, repeat=2)), key=lambda p: len(str(p)), reverse=True)
    found = KeysByOwner(clusters={alias: {} for alias in longest_first})
    for key, entry in entries.items():
        if pair := next((pair for pair in pairs if key.startswith(f"{pair}.")), None):
            found.pairs.setdefault(pair, {})[key[len(str(pair)) + 1 :]] = entry
        elif "->" in key and not any("->" in alias and key.startswith(f"{alias}.") for alias in longest_first):
            raise refusal(entry, _unknown_alias(key, longest_first))
        elif is_flow_key(key) or is_common(key) or is_provider_key(key):
            found.top[key] = entry
        elif key.startswith(_OWN_PREFIX):
            found.own[key] = entry
        elif alias := next((alias for alias in longest_first if key.startswith(f"{alias}.")), None):
            found.clusters[alias][key[len(alias) + 1 :]] = entry
        else:
            found.top[key] = entry
    return found


def is_flow_key(key: str) -> bool:
    """Return whether a key is a flow's, at top level or after the flow's name."""
    return key in FLOW_KEYS or is_of_transforms(key)


def is_common(key: str) -> bool:
    """Return whether a cluster's client key applies to all of its clients (MirrorClientConfig)."""
    return key in ("bootstrap.servers", "security.protocol") or key.startswith(("ssl.", "sasl."))


def unhonoured(found: KeysByOwner, enabled: Iterable[Pair]) -> dict[str, str]:
    """Return the full keys without effect and the reasons, "" for "not supported"."""
    enabled = tuple(enabled)
    sources, targets = {pair.source for pair in enabled}, {pair.target for pair in enabled}
    ignored: dict[str, str] = {}
    honoured = {"clusters", *TARGET_KEYS, *FLOW_KEYS, *honoured_keys(found.top)}
    for key, entry in found.top.items():
        if is_of_transforms(key):
            if not is_named(key, (found.top, *found.pairs.values())):
                ignored[entry.key] = UNNAMED
        elif key not in honoured and not _is_honoured_common(key, entry):
            ignored[entry.key] = needless(key)
    for alias, layer in found.clusters.items():
        roles: list[tuple[str, Role]] = [("admin.", "admin")] if alias in sources | targets else []
        roles += [("consumer.", "consumer")] if alias in sources else []
        roles += [("producer.", "producer")] if alias in targets else []
        _note(ignored, layer, roles)
    for pair, layer in found.pairs.items():
        _note(ignored, layer, _PAIR_ROLES)
        transforms = {key: entry for key, entry in layer.items() if is_of_transforms(key)}
        ignored |= {entry.key: UNNAMED for key, entry in transforms.items() if not is_named(key, (layer, found.top))}
        if pair.source == pair.target:
            ignored |= {entry.key: "a flow to itself" for entry in layer.values()}
    return ignored


_PAIR_ROLES: list[tuple[str, Role]] = [
    ("producer.override.", "producer"),
    ("source.producer.", "producer"),
    ("target.producer.", "producer"),
    ("source.consumer.", "consumer"),
    ("source.admin.", "admin"),
    ("target.admin.", "admin"),
    ("consumer.", "consumer"),
    ("producer.", "producer"),
    ("admin.", "admin"),
]


def _note(ignored: dict[str, str], layer: Layer, roles: list[tuple[str, Role]]) -> None:
    for sub, entry in layer.items():
        scope = next(((prefix, role) for prefix, role in roles if sub.startswith(prefix)), None)
        if "->" in entry.key and needless(sub):
            ignored[entry.key] = needless(sub)
        elif scope is not None:
            name = sub.removeprefix(scope[0])
            if not is_mapped(scope[1], name, entry.value):
                ignored[entry.key] = "writes are always idempotent" if name == "enable.idempotence" else ""
        elif "->" in entry.key:
            common = next(
                (sub.removeprefix(p) for p in ("source.cluster.", "target.cluster.") if sub.startswith(p)), ""
            )
            if not is_flow_key(sub) and not _is_honoured_common(common, entry):
                ignored[entry.key] = needless(sub)
        elif not _is_honoured_common(sub, entry) and sub not in TARGET_KEYS:
            ignored[entry.key] = needless(sub)


def _is_honoured_common(key: str, entry: Entry) -> bool:
    return is_common(key) and is_mapped("admin", key, entry.value)


def _stripped(layer: Layer, prefix: str) -> Layer:
    return {key[len(prefix) :]: entry for key, entry in layer.items() if key.startswith(prefix) and key != prefix}


def _only_common(layer: Layer) -> Layer:
    return {key: entry for key, entry in layer.items() if is_common(key)}


def _only_flow(layer: Layer) -> Layer:
    return {key: entry for key, entry in layer.items() if is_flow_key(key)}


def _only_worker(layer: Layer) -> Layer:
    return {key: entry for key, entry in layer.items() if key in TARGET_KEYS}


def _unknown_alias(key: str, aliases: list[str]) -> str:
    declared = ", ".join(sorted(aliases))
    source, rest = next(
        ((alias, key[len(alias) + 2 :]) for alias in aliases if key.startswith(f"{alias}->")), key.split("->", 1)
    )
    if source in aliases:
        suffix = next((f".{name}" for name in sorted(FLOW_KEYS, key=len)[::-1] if rest.endswith(f".{name}")), None)
        unknown = rest.removesuffix(suffix) if suffix else rest.split(".", 1)[0]
        if unknown in aliases:
            return f'names no property of {source}->{unknown}. Write e.g. "{source}->{unknown}.enabled".'
    else:
        unknown = source
    return f'unknown alias "{unknown}", expected one of {declared}. Correct it or add it to clusters.'
