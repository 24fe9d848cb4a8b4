"""Record the consumer group offsets that a flow has set, in a compacted topic.

An offset that a flow has set came from the other cluster, so the reverse flow must not copy it back. The group's own metadata
stay as its consumer has committed them. A note is written before the offset is set, so that a crash between the two leaves no
offset without a note.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mirror.config.clients import ClientOptions
from mirror.kafka.groups import HIDDEN, Group
from mirror.kafka.internal_topics import read_topic, write
from mirror.kafka.target import Target
from mirror.model.records import Record
from mirror.model.topic_partition import TopicPartition


class GroupPlace(NamedTuple):
    """A group's offset on a partition of the flow's target."""

    group: str
    topic: str
    partition: int


# A note has the new offset, and the previous one if the flow set that too: during the commit, either may be in place.
Offsets = tuple[int, ...]


@dataclass(slots=True)
class SetOffsets:
    """The offsets that one flow has set, read from its topic."""

    topic: str
    offsets: dict[GroupPlace, Offsets] = field(default_factory=dict)
    _next: int = 0  # offset in the topic to read from

    async def refresh(self, options: ClientOptions) -> set[GroupPlace]:
        """Read new notes from the topic; return their places."""
        changed = set()
        async for offset, record in read_topic(options, self.topic, self._next):
            if offset < self._next:  # another topic of the same name
                self.offsets.clear()
            self._next = offset + 1
            if (found := _decoded(record)) is not None:
                place, offsets = found
                changed.add(place)
                self._note(place, offsets)
        return changed

    def read_again(self) -> dict[GroupPlace, Offsets]:
        """Forget the notes, and read the topic from its start next time. Return the old notes."""
        before, self.offsets, self._next = self.offsets, {}, 0
        return before

    def of(self, group: Group) -> set[TopicPartition]:
        """Return the partitions whose offset the flow has set, and no consumer has committed since."""
        return {
            place
            for place, offset in group.offsets.items()
            if offset in self.offsets.get(GroupPlace(group.name, *place), ()) or group.has_earlier_mark(place)
        }

    def before(self, group: Group, wanted: Mapping[TopicPartition, int]) -> dict[GroupPlace, Offsets]:
        """Return the notes to write before these offsets of a group are set."""
        ours = {place: (group.offsets[place],) for place in self.of(group)}
        return {
            GroupPlace(group.name, *place): tuple(dict.fromkeys([offset, *ours.get(place, ())]))
            for place, offset in wanted.items()
        }

    def outdated(self, groups: Mapping[str, Group]) -> list[GroupPlace]:
        """Return the notes of offsets that have changed since: a consumer committed, or the offset was removed."""
        return [
            at
            for at, offsets in self.offsets.items()
            if (group := groups.get(at.group)) is not None
            and group.state != HIDDEN
            and group.offsets.get(TopicPartition(*at[1:])) not in offsets
        ]

    async def write(self, target: Target, notes: Mapping[GroupPlace, Offsets]) -> None:
        """Write notes; () removes a note. Raises KafkaError or TimeoutError."""
        await write(target, self.topic, (_encoded(place, offsets) for place, offsets in notes.items()))
        for place, offsets in notes.items():
            self._note(place, offsets)

    def _note(self, place: GroupPlace, offsets: Offsets) -> None:
        if offsets:
            self.offsets[place] = offsets
        else:
            self.offsets.pop(place, None)


def removed(places: Iterable[GroupPlace]) -> dict[GroupPlace, Offsets]:
    """Return tombstones for the notes of these places."""
    return dict.fromkeys(places, ())


def _encoded(place: GroupPlace, offsets: Offsets) -> tuple[bytes, bytes | None]:
    return json.dumps(place).encode(), json.dumps(offsets).encode() if offsets else None


def _decoded(record: Record) -> tuple[GroupPlace, Offsets] | None:
    """Decode a note; return None for any other record."""
    try:
        group, topic, partition = json.loads(record.key or b"")
        offsets = json.loads(record.value) if record.value is not None else ()
        return GroupPlace(str(group), str(topic), int(partition)), tuple(map(int, offsets))
    except (ValueError, TypeError):
        return None
