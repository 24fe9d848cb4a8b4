"""Run `kafka-mirror translate`: find the counterpart of an offset or a group on another cluster."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from mirror.commands.options import add_file, describe
from mirror.config.clients import client_options
from mirror.config.given import settings_given
from mirror.config.settings import Flow, Settings
from mirror.errors import ClusterUnavailable, SettingsError
from mirror.flows.translation import Place, across, plan_and_maps
from mirror.kafka.cluster import Cluster
from mirror.kafka.internal_topics import answered, read_checkpoints
from mirror.lag.cluster_offsets import group_offsets
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.text_columns import aligned

COLUMNS = ("topic", "partition", "offset", "is there", "partition", "offset")
NOTHING_FOUND = 1

Answer = TypeVar("Answer")


DESCRIPTION = """\
Translate consumer offsets from cluster A to cluster B, in either direction of a flow: where on B does the first record start
that has not been read on A? Exact at any lag; "-" if unknown. For failover and failback, and for offsets outside of consumer
groups, such as checkpoints of Spark or Flink. Reads from the clusters: kafka-mirror need not run. Changes nothing."""
EXAMPLES = """\
examples:
  kafka-mirror translate mirror.properties 'a->b' --group billing                        before a failover
  kafka-mirror translate mirror.properties 'b->a' --group billing                        before the failback
  kafka-mirror translate mirror.properties 'a->b' --topic orders --partition 3 --offset 4711 --json
prints, for example:
  topic   partition  offset  is there  partition  offset
  orders          0     150  a.orders          0     148
exit codes: 0 printed, 1 nothing could be translated, 2 settings, 3 a cluster did not respond, 6 it refused"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_file(parser)
    parser.add_argument("pair", metavar="A->B", help="from cluster A to cluster B, over one or several flows")
    parser.add_argument("--group", metavar="NAME", help="all offsets of this group on A")
    parser.add_argument("--topic", metavar="NAME", help="or one offset: of this topic, by its name on A")
    parser.add_argument("--partition", type=int, metavar="N", default=0, help="(default 0)")
    parser.add_argument("--offset", type=int, metavar="N", help="next offset to read on A")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(parsed: Namespace) -> int:
    """Print where offsets are on the other cluster; return the exit code."""
    return translate(settings_given(parsed), parsed)


class Hop(NamedTuple):
    """One step from cluster to cluster: along a flow, back along the reverse flow, or both."""

    start: str  # aliases
    end: str
    along: Flow | None
    back: Flow | None


def route(flows: Iterable[Flow], start: str, end: str) -> list[Hop]:
    """Return the shortest route between two clusters.

    Raises:
        SettingsError: no flows connect them, in either direction.
    """
    by_ends = {(flow.source.alias, flow.target.alias): flow for flow in flows}
    links = dict.fromkeys([*by_ends, *(ends[::-1] for ends in by_ends)])
    waiting: deque[tuple[str, list[Hop]]] = deque([(start, [])])
    seen = {start}
    while waiting:
        alias, way = waiting.popleft()
        if alias == end:
            return way
        for link in links:
            if link[0] == alias and link[1] not in seen:
                seen.add(link[1])
                waiting.append((link[1], [*way, Hop(*link, by_ends.get(link), by_ends.get(link[::-1]))]))
    known = ", ".join(flow.name for flow in by_ends.values())
    raise SettingsError(f"translate: no flows lead from {start} to {end}; enabled are {known}.")


def translate(settings: Settings, args: Namespace) -> int:
    """Print translated offsets; return 0, or 1 if nothing could be translated."""
    start, arrow, end = args.pair.partition("->")
    aliases = {alias for flow in settings.flows for alias in (flow.source.alias, flow.target.alias)}
    if not arrow or start == end or not {start, end} <= aliases:
        raise SettingsError(
            f'translate: "{args.pair}" does not name two clusters; expected A->B of {", ".join(sorted(aliases))}.'
        )
    if bool(args.group) == bool(args.topic) or (args.topic and args.offset is None):
        raise SettingsError("translate: pass either --group NAME, or --topic NAME --partition N --offset N.")
    way = route(settings.flows, start, end)
    try:
        places = (
            _group(settings.flows, start, args.group)
            if args.group
            else [Place(args.topic, args.partition, args.offset)]
        )
    except ClusterUnavailable as error:
        along = way[0].along
        if len(way) > 1 or along is None:
            raise
        print(f"kafka-mirror: {error} What follows is the group's last checkpoints.", file=sys.stderr)
        pairs = _last_checkpoints(along, args.group)
    else:
        pairs = _pairs(way, places)
    print((_json if args.json else _text)(pairs))
    return 0 if any(there.offset is not None for _, there in pairs) else NOTHING_FOUND


def _pairs(way: Sequence[Hop], places: Sequence[Place]) -> list[tuple[Place, Place]]:
    """Translate places over all hops; omit places that no flow replicates."""
    found: list[Place | None] = list(places)
    for hop in way:
        found = _over(hop, found)
    return [(place, there) for place, there in zip(places, found, strict=True) if there is not None]


def _last_checkpoints(flow: Flow, group: str) -> list[tuple[Place, Place]]:
    """Return a group's source and target offsets from its checkpoints, for a lost source."""

    topic = flow.policy.checkpoints_topic(flow.source.alias)
    checkpoints, _ = _read(flow, read_checkpoints(client_options(flow.target_admin), topic))
    found = {TopicPartition(c.topic, c.partition): c for c in checkpoints if c.group == group}
    return [
        (
            Place(flow.policy.upstream_topic(topic) or topic, partition, at.upstream),
            Place(topic, partition, at.downstream),
        )
        for (topic, partition), at in sorted(found.items())
    ]


def _read(flow: Flow, reading: Coroutine[Any, Any, Answer]) -> Answer:
    return answered(
        reading, cluster=flow.target.alias, what=f"the mirror's internal topics there for {flow.name} cannot be read"
    )


def _over(hop: Hop, places: Sequence[Place | None]) -> list[Place | None]:
    """Translate places over a hop, each by its topic's flow. If a cluster is lost, only its flow is affected."""
    known = [place for place in places if place is not None]
    if hop.along is not None and hop.along.is_bidirectional:
        found = _over_both(hop.along, hop.back, known)
    else:
        found = _over_either(hop, known)
    rest = iter(found)
    return [None if place is None else next(rest) for place in places]


def _over_either(hop: Hop, known: Sequence[Place]) -> list[Place | None]:
    """Translate places over a hop whose two flows replicate different topics."""
    found: list[Place | None] = [None] * len(known)
    gone: ClusterUnavailable | None = None
    for flow, is_back in ((hop.along, False), (hop.back, True)):
        if flow is not None:
            try:
                there = across(*plan_and_maps(flow), known, is_back=is_back)
            except ClusterUnavailable as error:
                gone = error
            else:
                found = [before or now for before, now in zip(found, there, strict=True)]
    if gone is not None and not any(found):
        raise gone
    return found


def _over_both(along: Flow, back: Flow | None, places: Sequence[Place]) -> list[Place | None]:
    """Translate places over a hop whose topics have both clusters' records; skip no record."""
    if back is None:
        raise SettingsError(
            f"translate: topics keep their names both ways, and the file has no flow {along.target.alias}->{along.source.alias}; "
            f"without it the records of {along.target.alias} itself would be left out. Enable it in the file that you give."
        )
    copies = across(*plan_and_maps(along), places, is_back=False)
    originals = across(*plan_and_maps(back), places, is_back=True)
    return [_earlier(copy, original) for copy, original in zip(copies, originals, strict=True)]


def _earlier(copy: Place | None, original: Place | None) -> Place | None:
    """Return the place after the original records; copies that follow it may be read again."""
    if copy is None or original is None or original.offset is None or copy.offset is None:
        return original or copy
    return original._replace(offset=min(copy.offset, original.offset))


def _group(flows: Iterable[Flow], alias: str, group: str) -> list[Place]:
    client = next(
        flow.source_admin if flow.source.alias == alias else flow.target_admin
        for flow in flows
        if alias in (flow.source.alias, flow.target.alias)
    )
    offsets = group_offsets(group, Cluster(alias, client))
    if not offsets:
        raise SettingsError(
            f'translate: group "{group}" has no offsets on {alias}. "kafka-mirror lag" lists its groups.'
        )
    return [Place(topic, partition, offset) for (topic, partition), offset in sorted(offsets.items())]


def _text(pairs: Sequence[tuple[Place, Place]]) -> str:
    rows = [tuple("-" if cell is None else str(cell) for cell in (*place, *there)) for place, there in pairs]
    return aligned([COLUMNS, *rows], right=(1, 2, 4, 5)) if rows else "no flow of this route replicates it"


def _json(pairs: Sequence[tuple[Place, Place]]) -> str:
    return json.dumps([{"from": place._asdict(), "to": there._asdict()} for place, there in pairs], indent=2)
