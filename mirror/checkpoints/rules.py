"""Translate a group's offset on one topic-partition, and decide what becomes of it. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from mirror.model.offset_map import OffsetMap


class State(StrEnum):
    """What became of a group's offset. The first two are as good as it gets, each of the others has its reason in the docs."""

    TRANSLATED = "translated"  # a checkpoint is there, the target's group was not to be moved
    SYNCED = "synced"  # and the target's group stands there
    AHEAD = "ahead"  # the group has read more than is replicated: what comes next is read again
    ACTIVE = "active"  # the target's group is in use and was left alone
    TARGET_AHEAD = "target_ahead"  # the target's group stands further on: it is never moved back
    SHARED = "shared"  # another flow writes to the target's partition too, so offsets have no exact place in it
    UNREACHABLE = "unreachable"  # the target does not tell where its log ends: it is asked again next time
    PAST_END = "past_end"  # the target's log ends before: it was cut, or its topic deleted and created again
    NOTHING_YET = "nothing_yet"  # no record of the topic-partition was replicated yet
    NO_MAP = "no_map"  # the offset is older than what is known: it was replicated by somebody else, or never
    UNSUPPORTED = "unsupported"  # a group of Kafka Streams' own protocol, or a share group: its offsets are not read
    REFUSED = "refused"  # the target's broker refused the group's offset, or a cluster hides the group


class Translated(NamedTuple):
    """A group's offset on a source topic-partition, and what it is on the target (None where that is not known)."""

    upstream: int
    downstream: int | None
    state: State
    metadata: str = ""  # that its reader has committed with the offset; "" if the group goes on before its exact place


def translated(upstream: int, offsets: OffsetMap | None, position: int | None, metadata: str = "") -> Translated:
    """Translate a group's committed offset; `position` is the next source offset to be replicated."""
    downstream = offsets.translate(upstream) if offsets is not None else None
    if downstream is None:
        return Translated(upstream, None, State.NO_MAP if offsets else State.NOTHING_YET)
    is_ahead = position is not None and upstream > position
    if is_ahead:
        return Translated(upstream, downstream, State.AHEAD)
    return Translated(upstream, downstream, State.TRANSLATED, metadata)


def translated_of_two(along: Translated, offsets: OffsetMap | None, home: int) -> Translated:
    """Translate a group's offset on a topic that has the records of both clusters, which are in another order on each.

    `home` is safe: what the group has not read of the source's own records came to the target later than what it has read of the
    target's came to the source. From there on copies of what the group has read are skipped, up to the first other record.

    Args:
        along: The offset translated by the flow's map, which knows of the source's own records.
        offsets: That map.
        home: The target offset behind the last record of the target's own that the group has read; 0 where it is not known.
    """
    if along.downstream is None or along.downstream <= home or offsets is None:
        return Translated(along.upstream, home, State.TRANSLATED)
    return along._replace(downstream=offsets.gapless_on_target(home, along.downstream), metadata="")


def moved(there: int | None, downstream: int, end: int | None) -> State | None:
    """Say why the target's idle group is not to be moved from `there` to `downstream`; None when it is.

    Source: MirrorCheckpointTask.syncGroupOffset, which never moves a group back.
    """
    if end is None:
        return State.UNREACHABLE
    if downstream > end:
        return State.PAST_END
    if there is None or there < downstream:
        return None
    return State.SYNCED if there == downstream else State.TARGET_AHEAD
