"""Define the rows that streams send from workers to the driver. Pure.

The fields of a record are the columns of its stream, in order. Workers fill them by name, Spark's schema is derived from them,
and the listener restores the same record from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_type_hints

_SPARK_TYPES = {
    str: "string",
    str | None: "string",
    int: "bigint",
    int | None: "bigint",
    float: "double",
    float | None: "double",
    bool: "boolean",
    bool | None: "boolean",
    list[int]: "array<bigint>",
}


class Measured(NamedTuple):
    """The ages or latencies of one window's records.

    Last, min and max are None if nothing was measured.
    """

    last_ms: float | None
    min_ms: float | None
    max_ms: float | None
    sum_ms: float
    counts: list[int]  # number of records between the bounds of metrics.catalogue.RECORD_SECONDS


class SlotReport(NamedTuple):
    """How a slot's window of a flow spent its time.

    For the rest of its time with the lease, the window waited for records.
    """

    lease_wait_ms: float
    takeovers: int = 0
    source_throttled_s: float = 0.0  # throttled by quotas of the source's brokers
    target_throttled_s: float = 0.0
    sending_s: float = 0.0  # with batches in flight to the target, except while packing
    packing_s: float = 0.0  # decoding, encoding and joining batches
    read_ahead_bytes: int = 0  # largest amount of bytes that were read and not acknowledged
    read_ahead_records: int = 0  # records that were read and not acknowledged when the window stopped reading
    polls: int = 0  # fetches that returned records, as Connect counts polls
    polled_records: int = 0
    polling_s: float = 0.0  # duration of these fetches, including the wait for records
    longest_poll_s: float = 0.0


class WindowReport(NamedTuple):
    """What one window replicated of one partition.

    One row per slot and window also has the slot's report. Other idle partitions have a row only once a minute, so a partition
    without a row is idle.
    """

    source: str
    target: str
    topic: str  # name on the target
    source_topic: str
    partition: int
    window_id: int
    slot: int
    duration_ms: float
    records: int
    bytes: int
    last_timestamp_ms: float | None  # of the newest acknowledged record
    age: Measured  # age of records when they are read
    latency: Measured  # from a record's timestamp to the target's acknowledgement
    lost: int  # source offsets that were deleted before they were replicated
    rewinds: int
    reason: str  # why the partition is paused; "" if it is not
    error_kind: str  # value of metrics.error_kind.ErrorKind; "other" if it is not paused
    is_paused_by_operator: bool
    is_topic_in_question: bool
    are_offsets_identical: bool | None = None  # None: offsets are translated, or were not compared in this window
    of_slot: SlotReport | None = None  # None if another row has it


class CheckpointReport(NamedTuple):
    """The state of a group's offset on one partition.

    Without a group: the result of a flow's round.
    """

    source: str
    target: str
    group: str | None = None
    topic: str | None = None  # name on the target; None for a group whose offsets are not read
    partition: int | None = None
    upstream: int | None = None
    downstream: int | None = None
    state: str | None = None  # value of mirror.checkpoints.rules.State
    reread: int | None = None  # records that the group has read since its last checkpoint; None at the first one
    latency_ms: float | None = None  # None if the checkpoint has not changed
    failure: str | None = None  # for a flow: why its round failed
    foreign: int | None = None  # for a flow: number of skipped records that are not checkpoints


_NESTED = {kind: record for record in (Measured, SlotReport) for kind in (record, record | None)}


def schema_of(record: type[tuple[Any, ...]]) -> str:
    """Return the schema of a record's stream in Spark's notation: "source string, age struct<sum_ms: double>"."""
    return ", ".join(f"{name} {_spark_type(kind)}" for name, kind in get_type_hints(record).items())


def _spark_type(kind: Any) -> str:
    if (nested := _NESTED.get(kind)) is None:
        return _SPARK_TYPES[kind]
    return f"struct<{', '.join(f'{name}: {_spark_type(part)}' for name, part in get_type_hints(nested).items())}>"


Report = TypeVar("Report", bound=tuple[Any, ...])


def from_columns(record: type[Report], columns: Mapping[str, Any]) -> Report:
    """Return the record for columns, with nested tuples."""
    nested = _nested_of(record)
    built = {name: make(*columns[name]) for name, make in nested.items() if columns[name] is not None}
    return record(**{**columns, **built})


@cache  # a window reports thousands of rows of the same record type
def _nested_of(record: type[tuple[Any, ...]]) -> dict[str, Any]:
    return {name: _NESTED[kind] for name, kind in get_type_hints(record).items() if kind in _NESTED}
