"""The number that the next batch of a topic-partition has for its broker, which appends each number once. Pure.

A broker does not ask who sends: a batch with the producer's id, its epoch and the next sequence number is taken from any
connection, one of the last five again is answered with its first offset, and all else is refused. So what is kept with a position
is a fence: a process that was taken for dead, and a packet that comes late, have numbers that are used.

A: A number stands for the records behind one position. Where a position changes by anything else than records that the target
   has, the numbers end, and others begin (`None`, then those of a producer id that has never written there).
B: Numbers that a broker refuses are doubted. What the target has behind the position says which is the next one; where it has
   nothing there, the numbers end.

Source: org.apache.kafka.storage.internals.log.ProducerAppendInfo.
"""

from __future__ import annotations

from typing import NamedTuple

SEQUENCES = 1 << 31  # a sequence number is a non-negative int32, 0 follows the last one
_DOUBTED = "?"


class NextSequence(NamedTuple):
    """Id and epoch of a producer, and the number of the record behind the position."""

    producer_id: int
    epoch: int
    next: int
    is_doubted: bool = False

    def after(self, records: int) -> NextSequence:
        """Return the numbers behind so many records that the target has; they are not doubted."""
        return NextSequence(self.producer_id, self.epoch, (self.next + records) % SEQUENCES)

    def doubted(self) -> NextSequence:
        """Return the same, of which the broker thinks otherwise."""
        return self._replace(is_doubted=True)

    def __str__(self) -> str:
        return f"{self.producer_id}.{self.epoch}.{self.next}{_DOUBTED if self.is_doubted else ''}"

    @classmethod
    def parse(cls, text: str) -> NextSequence | None:
        """Read back what str() returned; None for anything else."""
        parts = text.removesuffix(_DOUBTED).split(".")
        if len(parts) != 3 or not all(part.isdecimal() for part in parts):
            return None
        producer_id, epoch, number = map(int, parts)
        return cls(producer_id, epoch, number, text.endswith(_DOUBTED))
