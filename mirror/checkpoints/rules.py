"""Translate a group's offset on one partition, and decide its state. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from mirror.model.offset_map import OffsetMap


class State(StrEnum):
    """The state of a group's offset. The first two are healthy; docs/offsets.md explains the others."""

    TRANSLATED = "translated"  # the checkpoint is written; settings exclude moving the target's group
    SYNCED = "synced"  # the checkpoint is written, and the target's group is at that offset
    AHEAD = "ahead"  # the group has read more than is replicated, so it will read the next records again
    ACTIVE = "active"  # the target's group is in use, and was not moved
    TARGET_AHEAD = "target_ahead"  # the target's group is ahead; it is never moved back
    SHARED = "shared"  # another flow also writes to the target's partition, so offsets have no exact place in it
    UNREACHABLE = "unreachable"  # the target does not report its log end; the next round tries again
    PAST_END = "past_end"  # the target's log ends before the offset: it was cut, or the topic was recreated
    NOTHING_YET = "nothing_yet"  # no record of the partition was replicated yet
    NO_MAP = "no_map"  # the offset is before the known range: another program replicated it, or none did
    UNSUPPORTED = "unsupported"  # a Kafka Streams group or a share group: its offsets are not read
    REFUSED = "refused"  # the target's broker refused the group's offset, or a cluster does not show the group


class Translated(NamedTuple):
    """A group's offset on a source partition, and its target offset (None if unknown)."""

    upstream: int
    downstream: int | None
    state: State
    metadata: str = ""  # from its consumer's commit; "" if the group resumes before its exact place


def translated(upstream: int, offsets: OffsetMap | None, position: int | None, metadata: str = "") -> Translated:
    """Translate a group's committed offset; `position` is the next source offset to replicate."""
    downstream = offsets.translate(upstream) if offsets is not None else None
    if downstream is None:
        return Translated(upstream, None, State.NO_MAP if offsets else State.NOTHING_YET)
    is_ahead = position is not None and upstream > position
    if is_ahead:
        return Translated(upstream, downstream, State.AHEAD)
    return Translated(upstream, downstream, State.TRANSLATED, metadata)


def translated_of_two(along: Translated, offsets: OffsetMap | None, home: int) -> Translated:
    """Translate a group's offset on a topic that both clusters write, in different orders.

    `home` is safe: a source record that the group has not read was appended on the source after the target's records that the
    group has read, so it reached the target after them. From `home` on, copies of records that the group has read are skipped,
    up to the first other record.

    Args:
        along: The offset translated with the flow's map, which covers the source's own records.
        offsets: That map.
        home: The target offset after the last of the target's own records that the group has read; 0 if unknown.
    """
    if along.downstream is None or along.downstream <= home or offsets is None:
        return Translated(along.upstream, home, State.TRANSLATED)
    return along._replace(downstream=offsets.gapless_on_target(home, along.downstream), metadata="")


def moved(there: int | None, downstream: int, end: int | None) -> State | None:
    """Return why the target's idle group must not move from `there` to `downstream`, else None.

    Source: MirrorCheckpointTask.syncGroupOffset, which never moves a group back.
    """
    if end is None:
        return State.UNREACHABLE
    if downstream > end:
        return State.PAST_END
    if there is None or there < downstream:
        return None
    return State.SYNCED if there == downstream else State.TARGET_AHEAD
