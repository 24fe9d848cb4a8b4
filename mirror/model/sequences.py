"""Define the sequence number of a partition's next batch; a broker appends each number once. Pure.

A broker does not check which process sends. From any connection, it appends a batch with the producer's id, its epoch and the
next sequence number. If one of the last five batches is repeated, it responds with the first offset. It refuses everything
else. So the numbers stored with a position are a fence: a process that seemed dead, or a late packet, carries used numbers.

A: A number belongs to the records after one position. If a position changes for another reason than an acknowledgement, its
   numbers are dropped. The next ones are `None`, then those of a producer id that has never written to the partition.
B: If a broker refuses numbers, they are doubted. The target's records after the position then show the next number; if there
   are no such records, the numbers are dropped.

Source: org.apache.kafka.storage.internals.log.ProducerAppendInfo.
"""

from __future__ import annotations

from typing import NamedTuple

SEQUENCES = 1 << 31  # a sequence number is a non-negative int32, and 0 follows the last one
_DOUBTED = "?"


class NextSequence(NamedTuple):
    """A producer's id and epoch, and the sequence number of the record after the position."""

    producer_id: int
    epoch: int
    next: int
    is_doubted: bool = False

    def after(self, records: int) -> NextSequence:
        """Return the numbers after so many acknowledged records; the result is not doubted."""
        return NextSequence(self.producer_id, self.epoch, (self.next + records) % SEQUENCES)

    def doubted(self) -> NextSequence:
        """Return the same numbers, marked as refused by the broker."""
        return self._replace(is_doubted=True)

    def __str__(self) -> str:
        return f"{self.producer_id}.{self.epoch}.{self.next}{_DOUBTED if self.is_doubted else ''}"

    @classmethod
    def parse(cls, text: str) -> NextSequence | None:
        """Parse the text of str(); return None for anything else."""
        parts = text.removesuffix(_DOUBTED).split(".")
        if len(parts) != 3 or not all(part.isdecimal() for part in parts):
            return None
        producer_id, epoch, number = map(int, parts)
        return cls(producer_id, epoch, number, text.endswith(_DOUBTED))
