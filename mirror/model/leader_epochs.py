"""The leader epochs of what was read of a topic-partition: with them a broker finds that its log was truncated (KIP-320). Pure.

Each leader of a topic-partition has an epoch, and writes it into the batches that it appends. A fetch names the epoch of the
record before its offset. Where the log differs from that, the broker answers with the offset from which on it differs: a leader
that did not have all records has truncated the log there, and has appended others.
"""

from __future__ import annotations

from dataclasses import dataclass, field

UNKNOWN = -1  # of formats before 0.11, and of positions that others have set


@dataclass(slots=True)
class LeaderEpochs:
    """Where each epoch begins, from the position's on.

    A: Epochs and offsets only grow; each two neighbours have different epochs.
    """

    _begins: list[tuple[int, int]] = field(default_factory=list)  # (first offset, epoch)

    @classmethod
    def before_position(cls, offset: int, epoch: int) -> LeaderEpochs:
        """Return those of a topic-partition of which the record before a position is known."""
        return cls([(offset - 1, epoch)] if epoch != UNKNOWN else [])

    @property
    def last(self) -> int:
        """The epoch of the last record that was read."""
        return self._begins[-1][1] if self._begins else UNKNOWN

    def read(self, first_offset: int, epoch: int) -> None:
        """Note the next batch: its first offset and its epoch. One without, or with an older one, makes all of them unknown."""
        if epoch == self.last:
            return
        if epoch < self.last:
            self._begins.clear()
        if epoch != UNKNOWN:
            self._begins.append((first_offset, epoch))

    def at(self, offset: int) -> int:
        """Return the epoch of the record before an offset, and forget what is older: offsets are asked for in their order."""
        while len(self._begins) > 1 and self._begins[1][0] < offset:
            del self._begins[0]
        return self._begins[0][1] if self._begins and self._begins[0][0] < offset else UNKNOWN
