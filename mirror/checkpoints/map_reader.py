"""Read a flow's offset maps back from its target: the map's topic, and behind it the tails kept with the positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mirror.checkpoints.reads import committed, read_topic
from mirror.config.clients import aiokafka_options
from mirror.offset_map import OffsetMap
from mirror.replication.note import Note
from mirror.replication.plan import FlowPlan, Key
from mirror.replication.tail import MapRecord, Tail


@dataclass(slots=True)
class FlowMaps:
    """The maps of one flow by source topic and partition, with the positions they reach to; `refresh` reads what is new."""

    flow: FlowPlan
    maps: dict[Key, OffsetMap] = field(default_factory=dict)
    positions: dict[Key, int] = field(default_factory=dict)  # next source offset to replicate
    foreign: int = 0  # records in the map's topic that are none of it; whoever reports them sets it back
    _next: int = 0  # offset in the map's topic to read from
    _ends: dict[bytes, tuple[Key, int]] = field(default_factory=dict)  # by the topic's keys: place, and where it ends

    async def refresh(self, target: Mapping[str, str]) -> None:
        """Read what came since the last time. `target` holds the Java properties of a client of the target."""
        options = aiokafka_options(target)
        async for record in self._new_records(options):
            decoded = MapRecord.decode(record.key, record.value)
            if decoded is not None and decoded.runs.last is not None:
                place, last = (decoded.topic, decoded.partition), decoded.runs.last
                self.maps.setdefault(place, OffsetMap()).extend(decoded.runs)
                self._ends[record.key] = (place, last.source + last.records)
            elif record.value is not None:
                self.foreign += 1
        found = await committed(options, self.flow.group)
        for assigned in self.flow.partitions:
            offset, metadata = found.get((assigned.remote_topic, assigned.partition), (-1, ""))
            if offset < 0:
                continue
            key = (assigned.topic, assigned.partition)
            self.positions[key] = offset
            self.maps.setdefault(key, OffsetMap()).extend(Tail(Note.parse(metadata).tail).runs)

    def forget_before(self, starts: Mapping[Key, int]) -> list[bytes]:
        """Forget what lies before the source's log starts; return the keys of the map's topic that are no longer of use."""
        for place, start in starts.items():
            if place in self.maps:
                self.maps[place].forget_before(start)
        gone = []
        for key, (place, end) in list(self._ends.items()):
            first = self.maps[place].first if place in self.maps else None
            if first is None or end <= first.source:
                gone.append(key)
                del self._ends[key]
        return gone

    async def _new_records(self, options: Mapping[str, Any]):  # type: ignore[no-untyped-def]
        async for offset, record in read_topic(options, self.flow.offset_map_topic, self._next):
            if offset < self._next:  # the topic was created anew
                self.maps.clear()
                self._ends.clear()
            self._next = offset + 1
            yield record
