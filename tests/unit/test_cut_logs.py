"""A target that lost the end of its log gets it again. Asks no broker."""

from __future__ import annotations

import asyncio
import struct
from types import SimpleNamespace

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mirror.kafka.errors import BrokerError, ErrorCode
from mirror.model.flow_plan import FlowPlan, PlannedPartition
from mirror.model.gaps import Cause, Effect
from mirror.model.offset_map import OffsetMap, OffsetRun
from mirror.model.offset_map_tail import MapRecord, Tail
from mirror.model.record_batches import of_values, with_producer_state
from mirror.model.topic_partition import TopicPartition
from mirror.replication import cut_logs
from mirror.replication.cut_logs import go_back_to_cuts
from mirror.replication.partition import Partition

HERE = PlannedPartition("t", "A.t", 0, "source", remote_id="target")
PLAN = FlowPlan(source="A", target="B", tasks_max=1, consumer={}, producer={}, partitions=(HERE,))


def at_20(**fields: object) -> Partition:
    """A topic-partition whose target has acknowledged source offsets up to 20, at 30 of its log."""
    made = Partition(HERE, 20, 20, ids="source:target", next_target_offset=30, tail=Tail("12,22,8"), committed=20)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def gone_back(
    monkeypatch,
    partition: Partition,
    end: int | Exception,
    *,
    topic_id: str = "target",
    records=(),
    records_end: int = 99,
    may_have_aborted: bool = False,
) -> Partition:
    """`records_end`: where markers and aborted transactions begin, at the end of the target's log."""

    class Target:
        def __init__(self, _):
            pass

        async def open(self, _):
            pass

        async def close(self):
            pass

        async def offsets(self, wanted: dict[TopicPartition, int], *, as_replica: bool):
            assert as_replica, "what a leader does not show yet is not cut"
            return dict.fromkeys(wanted, end)

        def topic_id(self, _):
            return topic_id

        def shows(self, *_):
            return True

    async def read_followed(*_):
        for record in records:
            key, value = record.encode()
            yield 0, SimpleNamespace(key=key, value=value)

    async def end_of_records(_, __, at):
        return min(at, records_end)

    monkeypatch.setattr(cut_logs, "Source", Target)
    monkeypatch.setattr(cut_logs, "_end_of_records", end_of_records)
    monkeypatch.setattr(cut_logs, "client_options", lambda _: None)
    monkeypatch.setattr(cut_logs, "read_followed", read_followed)
    wrong = lambda *_: pytest.fail("nothing went wrong")  # noqa: E731
    asyncio.run(go_back_to_cuts(PLAN, [partition], wrong, may_have_aborted=may_have_aborted))
    return partition


@pytest.mark.parametrize(
    ("end", "position", "tail"),
    [
        pytest.param(30, 20, "12,22,8", id="all there"),
        pytest.param(33, 20, "12,22,8", id="more there"),
        pytest.param(25, 15, "12,22,3", id="cut in the newest run"),
        pytest.param(21, 8, "0,10,8", id="cut in the gap before it, which the map's topic knows"),
        pytest.param(10, 0, "0,10,0", id="all that the map's topic knows"),
        pytest.param(13, 3, "0,10,3", id="cut in what only the map's topic knows"),
    ],
)
def test_the_position_moves_back_to_the_end_of_the_targets_log(monkeypatch, end, position, tail):
    older = MapRecord("t", 0, OffsetMap([OffsetRun(0, 10, 8)]))
    found = gone_back(monkeypatch, at_20(), end, records=[older])
    assert (found.position, found.acked, found.tail.text()) == (position, position, tail)
    assert found.gaps == []
    if position < 20:
        assert (found.next_target_offset, found.committed, found.tally.rewinds) == (end, None, 1)


@pytest.mark.parametrize(("end", "may_have_aborted"), [(27, False), (27, True), (60, True)])
def test_markers_and_aborted_transactions_are_no_records(monkeypatch, end, may_have_aborted):
    found = gone_back(monkeypatch, at_20(), end, records_end=25, may_have_aborted=may_have_aborted)
    assert (found.position, found.tail.text(), found.next_target_offset) == (15, "12,22,3", 25)


def packed(base: int, count: int, *, producer_id: int = -1, is_control: bool = False) -> bytes:
    commits = struct.pack(">hh", 0, 1)  # the key of a marker
    (batch,) = of_values([(commits if is_control else b"", b"v")] * count, timestamp_ms=0)
    data = bytearray(b"".join(with_producer_state(batch.data, producer_id, 0, 0, transactional=producer_id >= 0)))
    struct.pack_into(">q", data, 0, base)
    if is_control:
        (attributes,) = struct.unpack_from(">h", data, 21)
        struct.pack_into(">h", data, 21, attributes | 0x20)
        struct.pack_into(">I", data, 17, crc32c(data[21:]))
    return bytes(data)


def _last(data: bytes) -> int:
    """Return the last offset of a batch, whether or not it is corrupt."""
    base, _, _, _, _, _, delta = struct.unpack_from(">qiibIhi", data)
    return int(base + delta)


@pytest.mark.parametrize(
    ("log", "aborted", "end", "expected"),
    [
        pytest.param([packed(0, 10)], (), 10, 10, id="records to the end"),
        pytest.param([packed(0, 10)], (), 7, 7, id="and beyond it"),
        pytest.param([packed(0, 10), packed(10, 1, producer_id=7, is_control=True)], (), 11, 10, id="a marker"),
        pytest.param([packed(0, 10), packed(10, 5, producer_id=7)], [(7, 10)], 15, 10, id="what was aborted"),
        pytest.param([packed(0, 10)], (), 12, None, id="the leader does not show all"),
        pytest.param([packed(0, 10, producer_id=7)], [(7, 0)], 10, 0, id="nothing is left"),
        pytest.param([packed(0, 10)[:-1] + b"!"], (), 10, None, id="a corrupt batch"),
    ],
)
def test_where_the_records_of_a_log_end(monkeypatch, log, aborted, end, expected):
    async def read_part(_, __, offset, ___):
        left = [data for data in log if _last(data) >= offset]
        return SimpleNamespace(error=ErrorCode.none, records=b"".join(left), aborted=aborted)

    monkeypatch.setattr(cut_logs, "read_part", read_part)
    monkeypatch.setattr(cut_logs, "LOOK_BACK", 3)
    assert asyncio.run(cut_logs._end_of_records(None, ("A.t", 0), end)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("partition", "end", "topic_id"),
    [
        pytest.param(at_20(), 25, "another", id="another topic of that name"),
        pytest.param(at_20(ids="source:"), 25, "", id="brokers without ids"),
        pytest.param(at_20(registered=3), 25, "target", id="others write there too"),
        pytest.param(at_20(assigned=HERE._replace(spread_over=3)), 25, "target", id="repartitioned"),
        pytest.param(at_20(start=-2), 25, "target", id="no position"),
        pytest.param(at_20(), BrokerError(ErrorCode.leader_not_available), "target", id="nobody tells"),
    ],
)
def test_the_position_stays_if_the_end_of_the_log_proves_nothing(monkeypatch, partition, end, topic_id):
    assert gone_back(monkeypatch, partition, end, topic_id=topic_id).position == 20


def test_records_lost_before_the_start_of_the_map_are_in_the_ledger(monkeypatch):
    found = gone_back(monkeypatch, at_20(), 5)
    assert (found.position, found.next_target_offset, found.committed) == (20, 5, None)
    assert [(gap.effect, gap.cause, gap.first, gap.last) for gap in found.gaps] == [
        (Effect.LOST, Cause.TARGET_CUT, None, 19)
    ]


RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 5)), max_size=8)


@given(RUNS, st.integers(0, 60))
def test_a_cut_map_keeps_all_offsets_before_the_cut_and_none_after(steps, end):
    runs, source, target = OffsetMap(), 0, 0
    where: dict[int, int] = {}  # target offset of each source offset
    for more_source, more_target, count in steps:
        source, target = source + more_source, target + more_target
        runs.add(source, target, count)
        where |= {source + n: target + n for n in range(count)}
        source, target = source + count, target + count
    runs.cut(end)
    known = {run.source + n: run.target + n for run in runs for n in range(run.records)}
    assert known == {ours: theirs for ours, theirs in where.items() if theirs < end}


@pytest.mark.parametrize(
    ("runs", "hole"),
    [
        ([], None),
        ([OffsetRun(5, 5, 3)], (None, 4)),
        ([OffsetRun(0, 0, 3), OffsetRun(7, 3, 1)], (3, 6)),
        ([OffsetRun(0, 0, 3), OffsetRun(3, 5, 1)], None),
    ],
)
def test_the_hole_is_between_the_newest_runs(runs, hole):
    assert Tail(OffsetMap(runs).text()).last_hole() == hole
