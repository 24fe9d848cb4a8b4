"""Read a flow's offset maps from its target: the map's topic, then the tails in the positions."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from mirror.config.clients import ClientOptions, client_options
from mirror.kafka.internal_topics import committed, read_topic
from mirror.model.flow_plan import FlowPlan
from mirror.model.offset_map import OffsetMap
from mirror.model.offset_map_tail import PAUSED, MapRecord, Tail
from mirror.model.position_metadata import PositionMetadata
from mirror.model.records import Record
from mirror.model.topic_partition import TopicPartition

log = logging.getLogger("mirror")

RUNS_EACH = 1_000  # per record of the map's topic, at some 20 characters each


@dataclass(slots=True)
class FlowMaps:
    """The maps of one flow by source topic and partition, with their positions. `refresh` updates them."""

    flow: FlowPlan
    most_runs: int | None = None  # about how many runs to keep in memory; None: all
    maps: dict[TopicPartition, OffsetMap] = field(default_factory=dict)
    positions: dict[TopicPartition, int] = field(default_factory=dict)  # next source offset to replicate
    foreign: int = 0  # records of other kinds in the map's topic; reset when reported
    # topic ids on both clusters, from the positions
    _ids: dict[TopicPartition, str] = field(default_factory=dict)
    _paused: str = ""  # the paused topics, as text
    _next: int = 0  # offset in the map's topic to read from
    # by partition: first source offset and end of each record in the topic
    _records: dict[TopicPartition, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    _added: int = 0  # runs added since the last count
    _is_thin: bool = False

    async def refresh(self, target: Mapping[str, str]) -> None:
        """Read the records since the last call. `target` has the Java properties of a client."""
        options = client_options(target)
        async for record in self._new_records(options):
            decoded = MapRecord.decode(record.key, record.value)
            if decoded is not None and (first := decoded.runs.first) and (last := decoded.runs.last):
                place = TopicPartition(decoded.topic, decoded.partition)
                self.maps.setdefault(place, OffsetMap()).extend(decoded.runs)
                self._records[place][first.source] = last.source + last.records
                self._bound(len(decoded.runs))
            elif record.value is not None and record.key != PAUSED:
                self.foreign += 1
        found = await committed(options, self.flow.group)
        self._paused = found.get(self.flow.paused_key, (0, ""))[1]
        for assigned in self.flow.partitions:
            offset, metadata = found.get(assigned.on_target, (-1, ""))
            if offset < 0:
                continue
            key, kept = assigned.on_source, PositionMetadata.parse(metadata)
            self.positions[key], self._ids[key] = offset, kept.ids
            self.maps.setdefault(key, OffsetMap()).extend(Tail(kept.tail).runs)

    async def read_again(self, target: Mapping[str, str]) -> None:
        """Drop the maps of recreated topics; next time, reread the map's topic from its start.

        Call this if the map's topic was deleted and created again. The maps of all other partitions stay valid.
        """
        found = await committed(client_options(target), self.flow.group)
        places = {assigned.on_source: assigned.on_target for assigned in self.flow.partitions}
        for key in list(self.maps):
            at = found.get(places[key]) if key in places else None
            if at is None or PositionMetadata.parse(at[1]).ids != self._ids.get(key):
                del self.maps[key]
        self._records.clear()
        self._next = 0

    def written_out(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield key and value of all records that the map's topic should have."""
        if self._paused:
            yield PAUSED, self._paused.encode()
        for key, runs in self.maps.items():
            rest = iter(runs)
            while part := list(islice(rest, RUNS_EACH)):
                yield MapRecord(*key, OffsetMap(part), self._ids.get(key, "")).encode()

    def _bound(self, added: int) -> None:
        """Limit memory: with a transaction every few records, maps grow with the source's log.

        If there are too many runs, each map with more than its equal share drops every second run of its older half.
        """
        self._added += added
        if self.most_runs is None or self._added * 8 < self.most_runs:
            return
        self._added = 0
        if sum(map(len, self.maps.values())) <= self.most_runs:
            return
        share = self.most_runs // len(self.maps)
        for offsets in self.maps.values():
            if len(offsets) > share:
                offsets.thin()
        if not self._is_thin:
            self._is_thin = True
            log.info(
                "%s: more than %d runs of offsets; groups that lag far behind will re-read some records after a failover",
                self.flow.name,
                self.most_runs,
            )

    def forget_before(self, starts: Mapping[TopicPartition, int]) -> list[bytes]:
        """Forget runs before the source's log starts; return the obsolete keys of the map's topic."""
        for place, start in starts.items():
            if place in self.maps:
                self.maps[place].forget_before(start)
        gone = []
        for place, records in self._records.items():
            first = self.maps[place].first if place in self.maps else None
            for begin in [begin for begin, end in records.items() if first is None or end <= first.source]:
                gone.append(MapRecord.key(*place, begin))
                del records[begin]
        return gone

    async def _new_records(self, options: ClientOptions) -> AsyncIterator[Record]:
        async for offset, record in read_topic(options, self.flow.offset_map_topic, self._next):
            if offset < self._next:  # the topic was deleted and created again
                self.maps.clear()
                self._records.clear()
            self._next = offset + 1
            yield record
