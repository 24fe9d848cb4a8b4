"""Find the topics from which a source's records came, from the positions of mirrors.

A mirror keeps a group of positions on its target, `mirror.A->B`, with the topic ids on both clusters
(mirror.policy.recreated). On a source, such groups belong to the mirrors that write to it, under any aliases.
Topic ids are unique across clusters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from mirror.config.clients import ClientOptions, client_options
from mirror.config.settings import Flow
from mirror.flows.stored_positions import Position, is_served, paused_topics
from mirror.kafka.client import Client
from mirror.kafka.cluster import Topic
from mirror.kafka.group_offsets import GroupOffsets, patiently
from mirror.kafka.groups import listed
from mirror.kafka.internal_topics import answered
from mirror.model.flow_plan import LEASE_TOPIC, is_own_group, paused_key
from mirror.model.position_metadata import PositionMetadata
from mirror.model.slot_ownership import SlotLayout, layout_key
from mirror.model.topic_partition import TopicPartition
from mirror.policy.java_regex import JavaPattern, SlowPattern
from mirror.policy.recreated import TopicIds
from mirror.runtime.clock import now_ms

MOST_IDS = 16  # per topic: the ids are stored with each of its positions

Positions = Mapping[TopicPartition, Position]


class Upstream(NamedTuple):
    """The origin of a topic's records, over any number of clusters.

    `live`: ids of the topics from which a running mirror replicates records. `resting`: ids of the topics from which a stopped
    mirror, or a mirror that has paused the topic, replicated records. `progress`: the sum of all positions of these mirrors; it
    grows while records are replicated.
    """

    live: frozenset[str] = frozenset()
    resting: frozenset[str] = frozenset()
    progress: int = 0

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids that are stored with the topic's positions."""
        return tuple(sorted(self.live | self.resting))[:MOST_IDS]

    def with_mirror(self, ids: Iterable[str], position: int, *, is_live: bool) -> Upstream:
        """Return the upstream with one partition of a mirror added."""
        live, resting = (self.live.union(ids), self.resting) if is_live else (self.live, self.resting.union(ids))
        return Upstream(live, resting, self.progress + position)


Upstreams = Mapping[str, Upstream]  # by topic


def read_upstreams(flow: Flow, topics: Mapping[str, Topic]) -> Upstreams:
    """Return the upstream topics of a flow's source; raises ClusterUnavailable."""
    options = client_options(flow.source_admin)
    what = "the mirrors that write to it cannot be read"
    found = answered(_positions(options), cluster=flow.source.alias, what=what)
    flow_back = flow.target.alias if flow.is_bidirectional else None
    return upstreams_of(found, topics, now_ms=now_ms(), flow_back=flow_back)


def upstreams_of(
    mirrors: Iterable[Positions], topics: Mapping[str, Topic], *, now_ms: float, flow_back: str | None = None
) -> Upstreams:
    """Return the upstream topics of each topic that a mirror wrote. Pure.

    Args:
        mirrors: The positions of each mirror that writes to the cluster, including its leases.
        topics: Topics of the cluster, by name.
        now_ms: Now, epoch ms.
        flow_back: The reverse flow's alias for its source, if the flow is bidirectional. Records of the reverse flow do not count
            after its producers are registered (mirror.replication.producer_registry).
    """
    found: dict[str, Upstream] = {}
    for positions in mirrors:
        if (source := _source(positions)) is None:
            continue
        runs, pattern = _runs(positions, source, now_ms=now_ms), paused_topics(positions, paused_key(source)).pattern()
        for (name, _), at in positions.items():
            if (topic := topics.get(name)) is None:
                continue
            metadata = PositionMetadata.parse(at.metadata)
            ids = TopicIds.parse(metadata.ids)
            if ids.source and ids.target == topic.topic_id:
                if source == flow_back and metadata.registered is not None:
                    if metadata.registered:  # a position must first pass the earlier records
                        found[name] = found.get(name, Upstream()).with_mirror((ids.source,), at.offset, is_live=False)
                    continue
                is_live = runs and not _is_paused(pattern, name, source)
                brought = (ids.source, *metadata.upstream)
                found[name] = found.get(name, Upstream()).with_mirror(brought, at.offset, is_live=is_live)
    return found


def going_round(
    now: Upstreams,
    before: Upstreams | None,
    *,
    on_target: frozenset[str],
    so_far: Collection[str],
    placed: Collection[str],
) -> set[str]:
    """Return the topics that would form a loop: their records came from the target. Pure.

    Of two mirrors that would form a loop, the earlier one continues: a topic counts only when its records actually come back.
    Records of a stopped mirror count until an operator sets the topic's positions.

    Args:
        now: The upstream topics now.
        before: The result of the last look; None at first.
        on_target: Ids of the target's topics.
        so_far: Topics that formed a loop at the last look.
        placed: Topics for which this flow has a position.
    """
    found = set()
    for topic, upstream in now.items():
        was = before.get(topic, Upstream()) if before is not None else None
        if on_target & upstream.live:
            if was is None or topic in so_far or was.progress != upstream.progress:
                found.add(topic)
        elif on_target & upstream.resting and topic not in placed:
            found.add(topic)
    return found


async def _positions(options: ClientOptions) -> list[Positions]:
    client = await Client.opened(options)
    try:
        groups = [name for name, _ in await patiently(lambda: listed(client)) if is_own_group(name)]
        offsets = GroupOffsets(client)
        found = [await patiently(partial(offsets.committed, name)) for name in groups]
    finally:
        await client.close()
    return [{place: Position(*at) for place, at in one.items()} for one in found]


def _source(positions: Positions) -> str | None:
    """Return a mirror's alias for its source; None if these are not a mirror's positions."""
    begin, end = LEASE_TOPIC.split("{source}")
    for topic, key in positions:
        if key == layout_key() and topic.startswith(begin) and topic.endswith(end):
            return topic[len(begin) : -len(end)]
    return None


def _runs(positions: Positions, source: str, *, now_ms: float) -> bool:
    """Return whether a process serves a mirror now. True if its leases were written by another version."""
    leases = LEASE_TOPIC.format(source=source)
    try:
        layout = SlotLayout.parse(positions[TopicPartition(leases, layout_key())].metadata)
        return layout is not None and is_served(positions, leases, window_ms=layout.window_ms, now_ms=now_ms)
    except (ValueError, TypeError):
        return True


def _is_paused(pattern: JavaPattern | None, remote: str, source: str) -> bool:
    """Return whether an operator paused a remote topic, by its name on the mirror's source.

    The topic's own name may start with the source's alias.
    """
    if pattern is None:
        return False
    names = [remote, *([remote[len(source) + 1 :]] if remote.startswith(source) else [])]
    try:
        return any(map(pattern.matches, names))
    except SlowPattern:
        return False
