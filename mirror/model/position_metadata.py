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

    `ids`: the topic ids on both clusters (mirror.policy.recreated), as text. `tail`: the tail of the offset map, as text.
    `until_ms`: until then (epoch ms) a batch with an unknown outcome may be appended; 0: there is no such batch. `in_sync`:
    number of in-sync replicas when the target appended nothing; None: it appends, as far as known. `sequence`: sequence number
    of the next batch; None: not numbered yet. `epoch`: epoch of the source's leader that appended the record before the
    position. `upstream`: ids of the topics that the source's records came from, over any number of clusters
    (mirror.flows.upstream). `registered`: target offset from which on the flow's producers are in its registry
    (mirror.replication.producer_registry); None: not registered.
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
        """Parse the result of str()."""
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
