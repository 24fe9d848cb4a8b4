"""Define gaps: what a flow lost, skipped, wrote twice or could not write, as records of its ledger. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

from mirror.model.topic_partition import TopicPartition


class Effect(Enum):
    """What became of the records of a gap."""

    LOST = "lost"  # the target does not have them, and the source not any more
    SKIPPED = "skipped"  # the target does not have them, because somebody wanted it so
    REPEATED = "repeated"  # the target may have them twice
    KEPT = "kept"  # the target has them, and the source not any more
    REFUSED = "refused"  # the target, or the source, did not take or give them when this was written


class Cause(Enum):
    """Why there is a gap."""

    RETENTION = "the source deleted records before they were replicated"
    TRUNCATION = "the source's log was truncated"
    SOURCE_REPLACED = "the source's topic was deleted and created again"
    TARGET_REPLACED = "the remote topic was deleted and created again"
    TARGET_CUT = "the target lost the end of its log"
    TARGET_DIFFERS = "the target has other records behind the last position than the source"
    REPARTITIONED = "the topic has another number of partitions on the target, so what is there cannot be compared"
    REFUSAL = "a record is not taken"
    OPERATOR = "an operator set the position"
    SOURCE_LOST = "readers and writers moved away from a source that is lost"


class Gap(NamedTuple):
    """A range of source offsets of one topic-partition, from `first` to `last`; None where nobody knows.

    `at_ms` is when it was found, epoch ms; `said` is what the log says of it; `topic_id` is the source topic's, "" where unknown.
    """

    topic: str
    partition: int
    effect: Effect
    cause: Cause
    first: int | None
    last: int | None
    at_ms: int
    said: str
    topic_id: str = ""

    @property
    def offsets(self) -> int | None:
        """Return how many offsets it has; None where nobody knows."""
        return None if self.first is None or self.last is None else self.last - self.first + 1

    @property
    def key(self) -> bytes:
        """Return what it has in common with itself when it is found again, after a crash: the later record replaces it then."""
        return json.dumps([self.topic, self.partition, self.cause.name, self.first, self.topic_id]).encode()

    def plain(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return {
            **self._asdict(),
            "effect": self.effect.value,
            "cause": self.cause.name.lower(),
            "offsets": self.offsets,
        }

    def encode(self) -> tuple[bytes, bytes]:
        """Return key and value of its record."""
        return self.key, json.dumps(self.plain()).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> Gap | None:
        """Read a record's value back; None for one that is not of this kind."""
        try:
            found: dict[str, Any] = json.loads(value or b"")
            return cls(
                topic=str(found["topic"]),
                partition=int(found["partition"]),
                effect=Effect(found["effect"]),
                cause=Cause[found["cause"].upper()],
                first=_number(found["first"]),
                last=_number(found["last"]),
                at_ms=int(found["at_ms"]),
                said=str(found["said"]),
                topic_id=str(found["topic_id"]),
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


def with_gap(gaps: Iterable[Gap], gap: Gap) -> list[Gap]:
    """Return gaps and another one, which replaces itself where it was found before."""
    return [*(each for each in gaps if each.key != gap.key), gap]


def set_by_operator(place: TopicPartition, before: int, after: int, *, at_ms: int, topic_id: str) -> Gap | None:
    """Return what a position that somebody sets leaves out, or has come again; None where it stays.

    Args:
        place: Topic and partition of the source.
        before: The position as it was.
        after: The one that is set.
        at_ms: Now, epoch ms.
        topic_id: The source topic's.
    """
    if before == after:
        return None
    effect = Effect.SKIPPED if after > before else Effect.REPEATED
    said = f"an operator set the position from {before} to {after}"
    first, last = min(before, after), max(before, after) - 1
    return Gap(*place, effect, Cause.OPERATOR, first, last, at_ms, said, topic_id)


def _number(found: Any) -> int | None:
    return None if found is None else int(found)
