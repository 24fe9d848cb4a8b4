"""Keep the leader epochs of records, by which a broker detects a truncated log (KIP-320). Pure.

Each leader of a partition has an epoch, and writes it into the batches that it appends. A fetch request carries the epoch of
the last record before the fetch offset. If the log differs, the broker responds with the first differing offset: a leader that
lacked records has truncated the log there, and has appended others.
"""

from __future__ import annotations

from dataclasses import dataclass, field

UNKNOWN = -1  # in formats before 0.11, and for positions that another program has set


@dataclass(slots=True)
class LeaderEpochs:
    """The first offset of each epoch, starting with the position's epoch.

    A: Epochs and offsets only grow; neighbours have different epochs.
    """

    _begins: list[tuple[int, int]] = field(default_factory=list)  # (first offset, epoch)

    @classmethod
    def before_position(cls, offset: int, epoch: int) -> LeaderEpochs:
        """Return the epochs of a partition whose last record before the position is known."""
        return cls([(offset - 1, epoch)] if epoch != UNKNOWN else [])

    @property
    def last(self) -> int:
        """The epoch of the last record that was read."""
        return self._begins[-1][1] if self._begins else UNKNOWN

    def read(self, first_offset: int, epoch: int) -> None:
        """Record the first offset and epoch of the next batch.

        If it has no epoch, or an older one, all become unknown.
        """
        if epoch == self.last:
            return
        if epoch < self.last:
            self._begins.clear()
        if epoch != UNKNOWN:
            self._begins.append((first_offset, epoch))

    def at(self, offset: int) -> int:
        """Return the epoch of the record before an offset, and forget older epochs.

        Offsets must be requested in order.
        """
        while len(self._begins) > 1 and self._begins[1][0] < offset:
            del self._begins[0]
        return self._begins[0][1] if self._begins and self._begins[0][0] < offset else UNKNOWN
