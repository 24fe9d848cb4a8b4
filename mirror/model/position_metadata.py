"""Encode the metadata of a position. Pure."""

from __future__ import annotations

from typing import NamedTuple

from mirror.model.leader_epochs import UNKNOWN
from mirror.model.sequences import NextSequence

_NO_TAIL = "-"
_UNTIL = "until="
_IN_SYNC = "in-sync="
_SEQUENCE = "seq="
_EPOCH = "epoch="
_UPSTREAM = "from="
_REGISTERED = "registered="


class PositionMetadata(NamedTuple):
    """The data about a partition that a window passes on with its position.

    `ids` of the topic on both sides (mirror.policy.recreated) and `tail` of the offset map, both as text. `until_ms`: a
    batch with an unknown outcome may be appended until then (epoch ms); 0: there is none. `in_sync`: the target appended
    nothing with so many in-sync replicas; None: it appends, as far as is known. `sequence`: the number of the next batch;
    None: there is none yet. `epoch`: that of the source's leader that appended the record before the position. `upstream`:
    ids of the topics that the source's records came from, over any number of clusters (mirror.flows.upstream). `registered`:
    from that target offset on, the producers of all records of the flow are in its registry
    (mirror.replication.producer_registry); None: they are not.
    """

    ids: str
    tail: str = ""
    until_ms: int = 0
    in_sync: int | None = None
    sequence: NextSequence | None = None
    epoch: int = UNKNOWN
    upstream: tuple[str, ...] = ()
    registered: int | None = None

    def __str__(self) -> str:
        marks = [f"{_UNTIL}{self.until_ms}"] if self.until_ms else []
        if self.in_sync is not None:
            marks.append(f"{_IN_SYNC}{self.in_sync}")
        if self.sequence is not None:
            marks.append(f"{_SEQUENCE}{self.sequence}")
        if self.epoch != UNKNOWN:
            marks.append(f"{_EPOCH}{self.epoch}")
        if self.upstream:
            marks.append(f"{_UPSTREAM}{','.join(self.upstream)}")
        if self.registered is not None:
            marks.append(f"{_REGISTERED}{self.registered}")
        if marks:
            return " ".join([self.ids, self.tail or _NO_TAIL, *marks])
        return f"{self.ids} {self.tail}".rstrip()

    @classmethod
    def parse(cls, metadata: str) -> PositionMetadata:
        """Read back what str() returned."""
        ids, _, rest = metadata.partition(" ")
        tail, *marks = rest.split(" ")
        values = {mark.partition("=")[0]: mark.partition("=")[2] for mark in marks}
        until, in_sync, epoch = values.get("until", ""), values.get("in-sync", ""), values.get("epoch", "")
        upstream, registered = values.get("from", ""), values.get("registered", "")
        return cls(
            ids,
            "" if tail == _NO_TAIL else tail,
            int(until) if until.isdecimal() else 0,
            int(in_sync) if in_sync.isdecimal() else None,
            NextSequence.parse(values.get("seq", "")),
            int(epoch) if epoch.isdecimal() else UNKNOWN,
            tuple(upstream.split(",")) if upstream else (),
            int(registered) if registered.isdecimal() else None,
        )
