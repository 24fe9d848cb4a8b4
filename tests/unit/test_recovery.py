"""What the target has behind a position is found among the source's records, however both were packed."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.kafka.errors import BrokerError, DisconnectedError, ErrorCode
from mirror.kafka.protocol import EARLIEST, LATEST
from mirror.model.flow_plan import PlannedPartition
from mirror.model.gaps import Cause, Effect
from mirror.model.offset_map_tail import Tail
from mirror.model.record_batches import Batch, Packer, batches, with_producer_state
from mirror.model.records import body_of
from mirror.model.transforms import Drop, IsTombstone, MaskFields, Transform
from mirror.replication import recovery
from mirror.replication.partition import Partition
from mirror.replication.recovery import ClusterPair, _expected_tails, matched, resume_after_tails

HERE = PlannedPartition("t", "A.t", 0, "id")


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


def packed(records: Sequence[Record], sizes: Sequence[int], codec: int = 0) -> list[Batch]:
    """Records in batches of those sizes (the last one again and again), with the offsets that they say."""
    found, at = [], 0
    while at < len(records):
        size = sizes[min(len(found), len(sizes) - 1)]
        part = records[at : at + size]
        packer = Packer(codec, 1 << 30)
        for record in part:
            packer.append(record.timestamp, body_of(record.key, record.value, record.headers), record.offset)
        data = bytearray(b"".join(with_producer_state(packer.build().data, -1, -1, -1, transactional=False)))
        struct.pack_into(">q", data, 0, part[0].offset)
        found += batches(bytes(data))
        at += size
    return found


def numbered(values: Sequence[bytes], *, start: int) -> list[Record]:
    return [Record(start + n, 1000 + n, b"k", value, (("h", value),)) for n, value in enumerate(values)]


SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=4)
VALUES = st.lists(st.binary(max_size=4), min_size=1, max_size=30)


@given(VALUES, st.integers(0, 29), SIZES, SIZES, st.sampled_from([0, 1]))
def test_a_tail_is_found_whatever_the_batches(values, copied, sizes, others, codec):
    copied = min(copied, len(values) - 1) + 1
    source = packed(numbered(values, start=70), sizes)
    target = packed(numbered(values[:copied], start=7), others, codec)
    runs = matched(source, target, source_from=70, target_from=7)
    assert runs is not None
    assert [tuple(run) for run in runs] == [(70, 7, copied)]


@given(VALUES, SIZES)
def test_one_record_that_differs_is_no_match(values, sizes):
    """A."""
    source = packed(numbered(values, start=0), sizes)
    target = packed(numbered([*values[:-1], values[-1] + b"x"], start=0), sizes)
    assert matched(source, target, source_from=0, target_from=0) is None


@given(st.lists(st.sampled_from([b'{"a":1}', b'{"a":1,"b":2}', None]), min_size=1, max_size=12), SIZES, SIZES)
def test_a_tail_of_changed_records_is_found_and_what_was_left_out_is_a_gap(values, sizes, others):
    transforms = (
        Transform("leave out", Drop(), IsTombstone()),
        Transform("mask", MaskFields(of_key=False, fields=("a",))),
    )
    written = [Record(70 + n, 1000 + n, b"k", value) for n, value in enumerate(values)]
    left = [record for record in written if record.value is not None]
    copied = [
        record._replace(offset=7 + n, value=record.value.replace(b'"a":1', b'"a":0')) for n, record in enumerate(left)
    ]
    source, target = packed(written, sizes), packed(copied, others)
    runs = matched(source, target, source_from=70, target_from=7, transforms=transforms)
    assert runs is not None
    found = [(run.source + n, run.target + n) for run in runs for n in range(run.records)]
    assert found == [(record.offset, 7 + n) for n, record in enumerate(left)]
    if left:
        assert matched(source, target, source_from=70, target_from=7) is None, "as they were they are others"


def test_more_on_the_target_than_on_the_source_is_no_match():
    source, target = packed(numbered([b"a"], start=0), [1]), packed(numbered([b"a", b"b"], start=0), [1])
    assert matched(source, target, source_from=0, target_from=0) is None


def test_batches_that_begin_before_are_cut_and_gaps_of_the_source_are_kept():
    kept = [*numbered([b"a", b"b"], start=10), *numbered([b"c", b"d"], start=20)]
    moved = [record._replace(offset=3 + n) for n, record in enumerate(kept[:3])]
    runs = matched(packed(kept, [2]), packed(moved, [3]), source_from=11, target_from=4)
    assert runs is not None
    assert [tuple(run) for run in runs] == [(11, 4, 1), (20, 5, 1)]


class Sifts:
    """A registry that knows whose the odd producers are."""

    async def only(self, _: object, found: list[Batch]) -> list[Batch]:
        return [batch for batch in found if batch.producer_id % 2]

    async def without(self, _: object, found: list[Batch]) -> list[Batch]:
        return [batch for batch in found if not batch.producer_id % 2]


class Log:
    """A cluster's log offsets; its leader has `hidden` more, for so many questions."""

    def __init__(self, topic: str, *, start: int, end: int, hidden: int = 0, times: int = 0) -> None:
        self.hidden, self.times = hidden, times
        self.learned = 0
        self._at = {(topic, EARLIEST): start, (topic, LATEST): end}

    def learn(self) -> None:
        self.learned += 1

    async def offsets(
        self, wanted: dict[tuple[str, int], int], *, as_replica: bool = False
    ) -> dict[tuple[str, int], int]:
        self.times -= as_replica
        more = self.hidden if as_replica and self.times >= 0 else 0
        return {place: self._at[place[0], at] + more for place, at in wanted.items()}


@pytest.mark.parametrize(
    ("partition", "source_from"),
    [
        pytest.param(Partition(HERE, start=EARLIEST), 2, id="no position yet"),
        pytest.param(Partition(HERE, 5, 5), 5, id="a position from before the first record"),
        pytest.param(Partition(HERE, 5, 5, tail=Tail("0,0,7")), None, id="known to its end"),
        pytest.param(Partition(HERE, start=LATEST), None, id="begins with what comes"),
    ],
)
def test_records_without_a_position_are_searched_from_their_earliest_offset(partition, source_from):
    source, target = Log("t", start=2, end=99), Log("A.t", start=0, end=7)
    found, unknown = asyncio.run(_expected_tails([partition], source, target))  # type: ignore[arg-type]
    assert unknown == set()
    assert [(behind.source_from, behind.target_from, behind.records) for behind in found] == (
        [] if source_from is None else [(source_from, 0, 7)]
    )


@pytest.mark.parametrize(("end", "behind"), [(7, 0), (8, 0), (9, 2)])
def test_one_marker_after_a_position_belongs_to_its_transaction(end, behind):
    source, target = Log("t", start=2, end=99), Log("A.t", start=0, end=end)
    partition = Partition(HERE, 5, 5, tail=Tail("0,0,7"))
    found, _ = asyncio.run(_expected_tails([partition], source, target, with_marker={partition}))  # type: ignore[arg-type]
    assert [one.records for one in found] == ([behind] if behind else [])


@pytest.mark.parametrize(("times", "is_unsettled"), [(0, False), (2, False), (1_000, True)])
def test_recovery_waits_for_records_above_the_high_watermark(monkeypatch, times, is_unsettled):
    """C: a batch that was appended and has too few replicas comes to light when there are more."""
    monkeypatch.setattr(recovery, "LOOK_AGAIN_S", 0.001)
    source, target = Log("t", start=2, end=99), Log("A.t", start=0, end=7, hidden=5, times=times)
    partition = Partition(HERE, 5, 5, tail=Tail("0,0,7"))
    unsettled = {partition}
    asyncio.run(
        resume_after_tails(
            "A->B",
            unsettled,
            ClusterPair(source, target),
            isolation_level=0,
            is_transactional=False,
            was_transactional=False,
            patience_s=0.05,
        )  # type: ignore[arg-type]
    )
    assert unsettled == ({partition} if is_unsettled else set())
    assert source.learned == is_unsettled, "no fetch of it fails, so no refusal names its next leader"
    assert partition.acked == 5


@pytest.mark.parametrize(
    ("error", "is_unsettled"),
    [
        (BrokerError(ErrorCode.leader_not_available), True),
        (DisconnectedError("reset"), True),
        (BrokerError(ErrorCode.unknown_topic_or_partition), False),
        (BrokerError(ErrorCode.topic_authorization_failed), False),
    ],
)
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_leader_that_does_not_answer_is_not_one_that_has_nothing(side, error, is_unsettled):
    class Silent(Log):
        async def offsets(self, wanted, *, as_replica=False):
            return dict.fromkeys(wanted, error)

    logs = {"source": Log("t", start=2, end=99), "target": Log("A.t", start=0, end=7)}
    logs[side] = Silent("t", start=0, end=0)
    partition = Partition(HERE, start=EARLIEST)
    unsettled = {partition}
    asyncio.run(
        resume_after_tails(
            "A->B",
            unsettled,
            ClusterPair(logs["source"], logs["target"]),
            isolation_level=0,
            is_transactional=False,
            was_transactional=False,
            patience_s=0,
        )  # type: ignore[arg-type]
    )
    assert unsettled == ({partition} if is_unsettled else set())


@pytest.mark.parametrize(
    ("source_start", "source_end", "copied", "position", "kept"),
    [
        pytest.param(0, 9, 6, 6, None, id="nothing was deleted"),
        pytest.param(4, 9, 6, 6, (0, 3), id="some of what was copied"),
        pytest.param(6, 9, 6, 6, (0, 5), id="all of it"),
        pytest.param(8, 9, 6, 6, (0, 5), id="more than that: the rest is lost, as the next fetch says"),
        pytest.param(9, 9, 6, 6, (0, 5), id="everything"),
    ],
)
def test_records_that_only_the_target_has_are_not_lost(monkeypatch, source_start, source_end, copied, position, kept):
    """D."""
    records = numbered([b"%d" % n for n in range(source_end)], start=0)
    logs = {"t": packed(records[source_start:], [1]), "A.t": packed(records[:copied], [2])}

    async def read_batches(log_of, place, start, count, _, **__):
        begins = source_start if place[0] == "t" else 0
        return [batch for batch in logs[place[0]] if batch.last_offset >= start][:count] if start >= begins else []

    monkeypatch.setattr(recovery, "read_batches", read_batches)
    source, target = Log("t", start=source_start, end=source_end), Log("A.t", start=0, end=copied)
    partition = Partition(HERE, 0, 0)
    unsettled = {partition}
    asyncio.run(
        resume_after_tails(
            "A->B",
            unsettled,
            ClusterPair(source, target),  # type: ignore[arg-type]
            isolation_level=0,
            is_transactional=False,
            was_transactional=False,
            patience_s=0,
        )
    )
    assert unsettled == set()
    assert (partition.position, partition.acked) == (position, position)
    gaps = [(gap.effect, gap.cause, gap.first, gap.last) for gap in partition.gaps]
    assert gaps == ([(Effect.KEPT, Cause.RETENTION, *kept)] if kept else [])


@pytest.mark.parametrize("is_transactional", [False, True])
def test_possible_duplicates_of_a_repartitioned_topic_are_in_the_ledger(is_transactional):
    logs = [Log("t", start=2, end=99), Log("A.t", start=0, end=7)]
    partition = Partition(HERE._replace(spread_over=3), 5, 5)
    unsettled = {partition}
    asyncio.run(
        resume_after_tails(
            "A->B",
            unsettled,
            ClusterPair(*logs),  # type: ignore[arg-type]
            isolation_level=0,
            is_transactional=is_transactional,
            was_transactional=False,
            patience_s=0,
        )
    )
    assert unsettled == set()
    found = [(gap.effect, gap.cause, gap.first, gap.last) for gap in partition.gaps]
    assert found == ([] if is_transactional else [(Effect.REPEATED, Cause.REPARTITIONED, 5, None)])


@given(
    theirs=st.lists(st.tuples(st.booleans(), st.integers(1, 3)), min_size=1, max_size=12),
    copied=st.integers(0, 40),
    others=st.lists(st.integers(0, 3), min_size=40, max_size=40),
)
def test_a_tail_is_found_between_the_records_of_others_on_both_sides(theirs, copied, others):
    """The source has what the flow back wrote there (by odd producers), the target what others wrote (by even ones)."""
    source: list[Batch] = []
    own: list[Record] = []
    offset = 0
    for is_back, count in theirs:
        records = numbered([b"%d" % (offset + n) for n in range(count)], start=offset)
        source += [batch._replace(producer_id=1 if is_back else 0) for batch in packed(records, [count])]
        own += [] if is_back else records
        offset += count
    copied = min(copied, len(own))
    target: list[Batch] = []
    pairs, at = [], 0
    for record, foreign in zip(own[:copied], others, strict=False):
        noise = numbered([b"noise"] * foreign, start=at)
        target += [batch._replace(producer_id=4) for batch in packed(noise, [1])]
        at += foreign
        target += [batch._replace(producer_id=5) for batch in packed([record._replace(offset=at)], [1])]
        pairs.append((record.offset, at))
        at += 1

    class Read(Log):
        def __init__(self, topic: str, log: list[Batch], end: int) -> None:
            super().__init__(topic, start=0, end=end)
            self.log = log

    async def read_batches(log_of, _, start, records, __, *, sifted, **___):
        found = await sifted([batch for batch in log_of.log if batch.last_offset >= start])
        return found[:records]

    partition = Partition(HERE, 0, 0, tail=Tail("0,0,0"))
    sides = ClusterPair(Read("t", source, offset), Read("A.t", target, at), Sifts(), Sifts())  # type: ignore[arg-type]
    unsettled = {partition}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recovery, "read_batches", read_batches)
        asyncio.run(
            resume_after_tails(
                "A->B",
                unsettled,
                sides,
                isolation_level=0,
                is_transactional=False,
                was_transactional=False,
                patience_s=0,
            )
        )
    assert unsettled == set()
    assert partition.position == (pairs[-1][0] + 1 if pairs else 0)
    found = [(run.source + n, run.target + n) for run in partition.tail.runs for n in range(run.records)]
    assert found == pairs
    assert partition.gaps == []
