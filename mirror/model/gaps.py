"""Define gaps: records that a flow lost, skipped, wrote twice or could not write. Pure.

A flow's ledger stores one record per gap.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

from mirror.model.topic_partition import TopicPartition


class Effect(Enum):
    """What happened to the records of a gap."""

    LOST = "lost"  # neither the target nor the source has them any more
    SKIPPED = "skipped"  # the target does not have them, because an operator wanted so
    REPEATED = "repeated"  # the target may have them twice
    KEPT = "kept"  # the target has them, but the source no longer does
    REFUSED = "refused"  # when this was written, the source did not deliver them, or the target did not accept them


class Cause(Enum):
    """Why there is a gap."""

    RETENTION = "the source deleted records before they were replicated"
    TRUNCATION = "the source's log was truncated"
    SOURCE_REPLACED = "the source's topic was deleted and created again"
    TARGET_REPLACED = "the remote topic was deleted and created again"
    TARGET_CUT = "the target lost the end of its log"
    TARGET_DIFFERS = "after the last position, the target has other records than the source"
    REPARTITIONED = (
        "the topic has another number of partitions on the target, so the target's records cannot be compared"
    )
    REFUSAL = "a cluster refuses a record"
    OPERATOR = "an operator set the position"
    SOURCE_LOST = "consumers and producers moved away from a lost source"


class Gap(NamedTuple):
    """A range of source offsets of one partition, from `first` to `last`; None if unknown.

    `at_ms`: when the gap was found, epoch ms. `said`: its text in the log. `topic_id`: id of the source topic, "" if unknown.
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
        """Return the number of offsets, None if unknown."""
        return None if self.first is None or self.last is None else self.last - self.first + 1

    @property
    def key(self) -> bytes:
        """Return the record key. If a gap is found again after a crash, its record replaces the earlier one."""
        return json.dumps([self.topic, self.partition, self.cause.name, self.first, self.topic_id]).encode()

    def plain(self) -> dict[str, Any]:
        """Return the gap as a JSON object."""
        return {
            **self._asdict(),
            "effect": self.effect.value,
            "cause": self.cause.name.lower(),
            "offsets": self.offsets,
        }

    def encode(self) -> tuple[bytes, bytes]:
        """Return key and value of the gap's record."""
        return self.key, json.dumps(self.plain()).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> Gap | None:
        """Decode the value of a record; return None for another kind of record."""
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
    """Return gaps with a new one, which replaces an equal earlier one."""
    return [*(each for each in gaps if each.key != gap.key), gap]


def set_by_operator(place: TopicPartition, before: int, after: int, *, at_ms: int, topic_id: str) -> Gap | None:
    """Return the gap that an operator's new position causes, None if there is no gap.

    Args:
        place: Topic and partition on the source.
        before: The position before.
        after: The new position.
        at_ms: Now, epoch ms.
        topic_id: Id of the source topic.
    """
    if before == after:
        return None
    effect = Effect.SKIPPED if after > before else Effect.REPEATED
    said = f"an operator set the position from {before} to {after}"
    first, last = min(before, after), max(before, after) - 1
    return Gap(*place, effect, Cause.OPERATOR, first, last, at_ms, said, topic_id)


def _number(found: Any) -> int | None:
    return None if found is None else int(found)
