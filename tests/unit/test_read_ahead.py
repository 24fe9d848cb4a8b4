"""What a slot holds in memory, until it is acknowledged; and that what goes next covers every record once."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.config.clients import produce_options
from mirror.model.flow_plan import PlannedPartition
from mirror.model.identical_offsets import Fill
from mirror.model.record_batches import CODECS, Batch, Packer, Round, batches, committed, with_producer_state
from mirror.model.records import body_of, records
from mirror.model.transforms import MaskFields, Transform, TransformError
from mirror.replication.partition import Partition
from mirror.replication.read_ahead import BUDGET_BYTES, LEAST_FETCH_BYTES, ReadAhead
from mirror.replication.repacking import TINY_BYTES, TINY_RECORDS, NotIdenticalError, Repacking
from tests.unit.test_recovery import Record, packed

CONTROL = 0x20  # attribute of a batch that holds a transaction's marker
TRANSACTIONAL = 0x10


def partition(*, spread_over: int = 0, is_identical: bool = False) -> Partition:
    assigned = PlannedPartition("t", "a.t", 0, "id", spread_over=spread_over, is_identical=is_identical)
    return Partition(assigned, position=0, acked=0)


def fetched(sizes: list[int], *, start: int, value: int = 10, is_control: bool = False) -> list[Batch]:
    """Batches of so many records each, one after the other, as a source tells them."""
    found = []
    for size in sizes:
        packer = Packer(CODECS["none"], 1 << 30)
        for n in range(size):
            packer.append(0, body_of(b"k%d" % n, b"v" * value), n)
        data = bytearray(b"".join(with_producer_state(packer.build().data, -1, -1, -1, transactional=False)))
        struct.pack_into(">q", data, 0, start)
        (batch,) = batches(bytes(data))
        found.append(batch._replace(attributes=batch.attributes | (CONTROL if is_control else 0)))
        start += size
    return found


def queues(producer: dict[str, str] | None = None) -> tuple[ReadAhead, Repacking]:
    """Return the queues of a slot, and what makes rounds of them, by settings of the target's producer."""
    read_ahead = ReadAhead()
    return read_ahead, Repacking(produce_options(producer or {}), read_ahead)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("fetch"), st.lists(st.integers(1, 5), min_size=1, max_size=4)),
        st.tuples(st.just("markers"), st.lists(st.just(1), min_size=1, max_size=2)),
        st.tuples(st.sampled_from(["send", "send", "answer", "refusal", "pause"]), st.just([])),
    ),
    max_size=40,
)


@given(steps=STEPS, spread_over=st.sampled_from([0, 3]))
def test_read_ahead_holds_batches_without_outcome_and_offsets_never_decrease(steps, spread_over):
    read_ahead, repacking = queues()
    one = partition(spread_over=spread_over)
    under_way: Round | None = None
    end, acked = 0, 0
    for step, sizes in steps:
        if step in ("fetch", "markers"):
            end = one.position
            for batch in fetched(sizes, start=end, is_control=step == "markers"):
                read_ahead.take_in(one, batch)
        elif step == "send" and not one.in_flight:
            under_way = repacking.next_round(one)
            one.in_flight = under_way is not None
        elif step == "answer" and one.in_flight:
            one.in_flight = False
            one.passed(under_way.next_offset)
            read_ahead.let_go(one)
        elif step in ("refusal", "pause") and (step == "pause" or one.in_flight):
            if step == "refusal":
                one.in_flight = False
            read_ahead.clear(one)
            if not one.in_flight:
                one.position = one.acked
        assert one.acked >= acked
        acked = one.acked
        assert read_ahead.held_bytes == one.backlog.held_bytes >= sum(len(batch.data) for batch in one.backlog.queue)
    while one.in_flight or one.backlog.queue or one.backlog.ready:
        if one.in_flight:
            one.in_flight = False
            read_ahead.let_go(one)
        one.in_flight = repacking.next_round(one) is not None
    assert read_ahead.held_bytes == one.backlog.held_bytes == one.backlog.taken_bytes == 0


@given(fetchers=st.integers(1, 300), held=st.integers(0, BUDGET_BYTES))
def test_fetches_never_exceed_the_buffer_and_can_all_run_at_once(fetchers, held):
    read_ahead = ReadAhead()
    read_ahead.held_bytes = held
    shares = []
    for _ in range(fetchers):
        shares.append(read_ahead.share(fetchers))
        read_ahead.reserve(shares[-1])
    assert held + sum(shares) <= BUDGET_BYTES
    if held <= BUDGET_BYTES // 2 and fetchers * LEAST_FETCH_BYTES <= BUDGET_BYTES // 2:
        assert all(shares)
    for share in shares:
        read_ahead.unreserve(share)
    assert read_ahead.share(1) == (BUDGET_BYTES // 2 if held <= BUDGET_BYTES // 2 else 0)


def test_the_end_of_a_fetch_wakes_only_fetchers_that_wait_for_room():
    """Two fetchers without anything to ask for would wake one another without end."""
    read_ahead = ReadAhead()
    share = read_ahead.share(1)
    read_ahead.reserve(share)
    read_ahead.unreserve(share)
    assert not read_ahead.room.is_set()
    read_ahead.reserve(share)
    read_ahead.reserve(share)
    assert read_ahead.share(1) == 0
    read_ahead.unreserve(share)
    assert read_ahead.room.is_set()


@pytest.mark.parametrize(("records", "expected"), [(3, [6]), (TINY_RECORDS + 1, [TINY_RECORDS + 1] * 2)])
def test_small_batches_are_joined_unless_they_have_many_records(records, expected):
    """Well compressed batches of thousands of records take few bytes, and long to decode."""
    (read_ahead, repacking), one = queues(), partition()
    for batch in fetched([records] * 2, start=0, value=0):
        assert len(batch.data) < TINY_BYTES
        read_ahead.take_in(one, batch)
    found = []
    while (following := repacking.next_round(one)) is not None:
        found += [outgoing.count for outgoing in following.batches.values()]
    assert found == expected


def test_with_identical_offsets_gaps_are_filled_before_records_and_at_the_end():
    (read_ahead, repacking), one = queues(), partition(is_identical=True)
    one.remote_log.compared(0, disposable_before=0)
    for batch in (*fetched([2], start=3), *fetched([1], start=5, is_control=True)):
        read_ahead.take_in(one, batch)
    assert repacking.next_round(one) == Fill(0, 3)
    one.remote_log.grow(3)
    one.filled(Fill(0, 3), is_mapped=True)
    (outgoing,) = repacking.next_round(one).batches.values()
    assert [run.source for run in outgoing.runs] == [3]
    one.passed(outgoing.next_offset)
    one.remote_log.grow(5)
    assert repacking.next_round(one) == Fill(5, 6)
    one.remote_log.grow(7)
    for batch in fetched([1], start=6):
        read_ahead.take_in(one, batch)
    with pytest.raises(NotIdenticalError, match="already ends at offset 7"):
        repacking.next_round(one)


def test_a_repacked_batch_counts_with_its_new_size():
    """Ten batches of a record each that were compressed at the source are not on their way out."""
    (read_ahead, repacking), one = queues({"compression.type": "none"}), partition()
    small = [batch._replace(data=batch.data[:]) for batch in fetched([1] * 10, start=0)]
    for batch in small:
        read_ahead.take_in(one, batch)
    before = read_ahead.held_bytes
    (outgoing,) = repacking.next_round(one).batches.values()
    assert outgoing.count == 10
    assert read_ahead.held_bytes >= min(before, len(outgoing.data)) > 0
    one.in_flight = False
    read_ahead.let_go(one)
    assert read_ahead.held_bytes == 0


@pytest.mark.parametrize(
    ("limit", "counts"), [("100000", [8]), ("5000", [4, 4]), ("3000", [2, 2, 2, 2]), ("500", [1] * 8)]
)
def test_a_batch_is_split_until_it_is_no_larger_than_the_files_max_request_size(limit, counts):
    (read_ahead, repacking), one = queues({"max.request.size": limit}), partition()
    (batch,) = fetched([8], start=0, value=1000)
    read_ahead.take_in(one, batch)
    found = []
    while following := repacking.next_round(one):
        (outgoing,) = following.batches.values()
        found.append(outgoing)
        one.passed(outgoing.next_offset)
        read_ahead.let_go(one)
    assert [outgoing.count for outgoing in found] == counts
    assert [repacking.is_too_large(outgoing) for outgoing in found] == [limit == "500"] * len(counts)
    assert one.acked == 8
    assert read_ahead.held_bytes == 0


def test_without_a_max_request_size_the_targets_own_limits_decide():
    (read_ahead, repacking), one = queues(), partition()
    (batch,) = fetched([2], start=0, value=2 << 20)
    read_ahead.take_in(one, batch)
    (outgoing,) = repacking.next_round(one).batches.values()
    assert outgoing.count == 2
    assert not repacking.is_too_large(outgoing)


def test_epochs_include_those_of_aborted_batches():
    read_ahead, one = ReadAhead(), partition()
    first, second, third = fetched([1, 1, 1], start=0)
    aborted = second._replace(attributes=second.attributes | TRANSACTIONAL, producer_id=9, leader_epoch=4)
    seen = list(committed([first._replace(leader_epoch=3), aborted, third._replace(leader_epoch=4)], [(9, 0)]))
    assert len(seen[1].data) == 0
    for batch in seen:
        read_ahead.take_in(one, batch)
    assert [one.epochs.at(offset) for offset in (1, 2, 3)] == [3, 4, 4]
    assert fetched([1], start=7)[0].leader_epoch == -1, "a producer writes none"


@given(
    bad=st.lists(st.booleans(), min_size=1, max_size=12),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    gap=st.integers(0, 3),
)
def test_a_record_that_a_transform_does_not_take_is_reached_and_never_passed(bad, sizes, gap):
    """What is before it crosses, whatever the batches; then it stops the topic-partition, each time."""
    mask = (Transform("mask", MaskFields(of_key=False, fields=("a",))),)
    written = [Record(gap + n, n, b"k", b"x" if is_bad else b'{"a":1}') for n, is_bad in enumerate(bad)]
    read_ahead, repacking = queues()
    one = Partition(PlannedPartition("t", "a.t", 0, "id", transforms=mask), position=0, acked=0)
    for batch in packed(written, sizes):
        read_ahead.take_in(one, batch)
    crossed: list[bytes | None] = []
    stays = None
    while True:
        try:
            under_way = repacking.next_round(one)
        except TransformError as error:
            stays = error.offset
            break
        if not under_way:
            break
        (outgoing,) = under_way.batches.values()
        crossed += [record.value for record in records(outgoing.data)]
        one.passed(outgoing.next_offset)
        read_ahead.let_go(one)
    first_bad = bad.index(True) if any(bad) else len(bad)
    assert crossed == [b'{"a":0}'] * first_bad
    assert stays == (gap + first_bad if any(bad) else None)
    if any(bad):
        assert one.acked == gap + first_bad
        read_ahead.clear(one)  # as a pause does; then it is read again
        one.position = one.acked
        for batch in packed(written, sizes):
            if batch.last_offset >= one.position:
                read_ahead.take_in(one, batch)
        with pytest.raises(TransformError):
            repacking.next_round(one)
    else:
        assert one.acked == gap + len(bad)
        assert read_ahead.held_bytes == 0
