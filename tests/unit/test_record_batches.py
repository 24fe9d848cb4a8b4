"""Record batches as bytes: whole copies, re-batching, splitting, aborted transactions."""

import random
import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.lag.first_unreplicated import first_timestamp
from mirror.model import codecs, record_batches
from mirror.model.codecs import CODECS
from mirror.model.offset_map import OffsetRun

RECORDS = st.lists(
    st.tuples(
        st.integers(min_value=0, max_value=2**60),
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=40),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


def build(records, *, codec=0, base=0, transactional=0, producer=-1):
    builder = DefaultRecordBatchBuilder(
        2,
        codec,
        is_transactional=transactional,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        batch_size=1 << 20,
    )
    for offset, (timestamp, key, value, headers) in enumerate(records):
        assert builder.append(offset, timestamp, key, value, headers) is not None
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base)
    return bytes(data)


def records_of(data):
    reader = MemoryRecords(bytes(data))
    found = []
    while reader.has_next():
        found += [(r.timestamp, r.key, r.value, list(r.headers)) for r in reader.next_batch()]
    return found


@settings(max_examples=60)
@given(RECORDS, st.sampled_from(range(5)), st.integers(0, 2**40))
def test_a_whole_batch_is_copied_with_its_records_unchanged(records, codec, base):
    """Only ids, epoch, base offset and CRC change; the CRC fits the new bytes."""
    (batch,) = record_batches.batches(build(records, codec=codec, base=base))
    assert batch.is_copyable(base)
    assert (batch.base_offset, batch.last_offset, batch.count) == (base, base + len(records) - 1, len(records))
    sent = b"".join(
        record_batches.with_producer_state(record_batches.copy_batch(batch, None).data, 7, 3, 11, transactional=False)
    )
    header = record_batches.HEADER.unpack_from(sent)
    assert (header[0], header[2], header[9:12]) == (0, -1, (7, 3, 11))
    assert header[4] == calc_crc32c(sent[21:])
    assert records_of(sent) == records


@settings(max_examples=60)
@given(RECORDS, st.sampled_from(range(5)), st.sampled_from(range(5)))
def test_another_codec_changes_no_record(records, before, after):
    (batch,) = record_batches.batches(build(records, codec=before))
    sent = b"".join(
        record_batches.with_producer_state(record_batches.copy_batch(batch, after).data, 1, 0, 0, transactional=False)
    )
    assert records_of(sent) == records
    (again,) = record_batches.batches(sent)
    assert again.codec == after or (before == 0 and len(sent) == len(batch.data)), "plain where that is smaller"


@settings(max_examples=60)
@given(st.lists(RECORDS, min_size=1, max_size=5), st.integers(0, 30), st.integers(100, 4000))
def test_rebatching_keeps_every_record_after_the_position_in_order(groups, position, max_bytes):
    data, base = b"", 0
    for records in groups:
        data += build(records, base=base)
        base += len(records)
    everything = [record for records in groups for record in records]
    made = record_batches.rebatch(record_batches.batches(data), position, codec=None, max_bytes=max_bytes)
    assert [r for out in made for r in records_of(out.data)] == everything[position:]
    assert sum(out.count for out in made) == max(0, len(everything) - position)
    if made:
        assert made[-1].next_offset == base
        stamps = [r[0] for r in everything[position:]]
        assert min(out.min_timestamp for out in made) == min(stamps)
        assert max(out.max_timestamp for out in made) == max(stamps)


def test_a_compacted_batch_cannot_go_whole_and_is_rebatched_without_its_gap():
    data = bytearray(build([(1, b"a", b"1", []), (2, b"b", b"2", [])], base=10))
    struct.pack_into(">i", data, 23, 5)  # lastOffsetDelta: records behind these two were compacted away
    struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
    (batch,) = record_batches.batches(bytes(data))
    assert not batch.is_copyable(10)
    (out,) = record_batches.rebatch([batch], 10, codec=None, max_bytes=1 << 20)
    assert (out.count, out.next_offset) == (2, 16)


def test_halves_hold_all_records_and_never_claim_more_than_was_sent():
    records = [(n, b"k", bytes([n]), []) for n in range(5)]
    (batch,) = record_batches.batches(build(records, base=100))
    first, second = record_batches.split_batch(record_batches.copy_batch(batch, None))
    assert records_of(first.data) + records_of(second.data) == records
    assert (first.next_offset, second.next_offset) == (102, 105)
    assert (first.runs, second.runs) == ((OffsetRun(100, 0, 2),), (OffsetRun(102, 0, 3),))
    assert record_batches.split_batch(second)[0].next_offset == 103


def test_a_damaged_batch_is_refused_not_sent_on_with_a_new_crc():
    data = bytearray(build([(1, b"k", b"value", [])], base=4))
    data[-2] ^= 1
    with pytest.raises(record_batches.CorruptBatch, match="offset 4"):
        list(record_batches.batches(bytes(data)))


def test_a_cut_off_tail_is_left_for_the_next_fetch():
    data = build([(1, b"k", b"v", [])])
    assert len(list(record_batches.batches(data + data[:-1]))) == 1
    assert len(list(record_batches.batches(data + data[:30]))) == 1


def control(base, producer, kind):
    data = bytearray(
        build([(1, struct.pack(">HH", 0, kind), b"\0" * 6, [])], base=base, transactional=1, producer=producer)
    )
    struct.pack_into(">h", data, 21, 0x30)
    struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
    return bytes(data)


def test_read_committed_drops_aborted_batches_and_keeps_the_producers_later_ones():
    record = [(1, b"k", b"v", [])]
    data = (
        build(record, base=0, transactional=1, producer=1)  # aborted
        + build(record, base=1, transactional=1, producer=2)  # committed
        + control(2, 1, 0)
        + build(record, base=3, transactional=1, producer=1)  # a new transaction of the same producer
        + control(4, 2, 1)
        + build(record, base=5)
    )
    seen = [
        batch.base_offset
        for batch in record_batches.committed(record_batches.batches(data), [(1, 0)])
        if not batch.is_control
    ]
    assert seen == [1, 3, 5]


def test_the_transactional_bit_is_cleared_when_our_producer_is_not_transactional():
    (batch,) = record_batches.batches(build([(1, b"k", b"v", [])], transactional=1, producer=9))
    (sent,) = record_batches.batches(
        b"".join(record_batches.with_producer_state(batch.data, 1, 0, 0, transactional=False))
    )
    assert not sent.is_transactional
    (sent,) = record_batches.batches(
        b"".join(record_batches.with_producer_state(batch.data, 1, 0, 0, transactional=True))
    )
    assert sent.is_transactional


def test_the_first_timestamp_at_a_position_is_exact_also_inside_a_batch():
    records = [(1000 + n, b"k", b"v", []) for n in range(5)]
    data = build(records, base=10) + build([(5000, b"k", b"v", [])], base=15)
    assert [first_timestamp(data, position) for position in (10, 12, 14, 15)] == [1000, 1002, 1004, 5000]
    assert first_timestamp(data, 16) is None
    assert first_timestamp(b"", 0) is None


def test_records_of_our_own_go_in_batches_that_any_broker_takes():
    pairs = [(b"key %d" % n, None if n % 5 == 0 else b"v" * 1000) for n in range(2_000)]
    made = list(record_batches.of_values(iter(pairs), timestamp_ms=7))
    assert max(len(batch.data) for batch in made) < 300 << 10
    assert [(r.key, r.value) for batch in made for r in record_batches.records(memoryview(batch.data))] == pairs
    assert list(record_batches.of_values([], timestamp_ms=7)) == []


@given(
    form=st.sampled_from([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]),  # magic, codec
    sets=st.lists(st.lists(st.binary(max_size=80), min_size=1, max_size=4), min_size=1, max_size=4),
    cut=st.integers(0, 200),
)
def test_all_complete_messages_of_old_formats_are_found(form, sets, cut):
    """A message of 26 bytes at the end of a log is shorter than today's header, and a record all the same."""
    (magic, codec), data, offset = form, b"", 0
    for values in sets:
        builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
        for n, value in enumerate(values):
            is_relative = codec and magic  # as brokers keep compressed messages of format 1
            builder.append(n if is_relative else offset + n, timestamp=7 if magic else None, key=None, value=value)
        offset += len(values)
        built = builder.build()
        if codec:
            struct.pack_into(">q", built, 0, offset - 1)  # a wrapper has its last message's offset
        data += bytes(built)
    found = list(record_batches.batches(data))
    expected = [value for values in sets for value in values]
    assert [record.value for batch in found for record in record_batches.records(batch.data)] == expected
    assert [batch.last_offset for batch in found][-1] == len(expected) - 1
    assert {batch.magic for batch in found} == {magic}
    whole = list(record_batches.batches(data[: max(0, len(data) - cut)]))
    assert whole == found[: len(whole)]
    assert len(whole) == len(found) or cut > 0
    (packed,) = record_batches.rebatch(found, 0, codec=0, max_bytes=1 << 20)
    assert packed.count == len(expected)
    assert packed.next_offset == len(expected)


def test_a_batch_that_compression_enlarges_stays_plain():
    noise = [(1, b"k", random.Random(1).randbytes(2000), [])]
    (batch,) = record_batches.batches(build(noise))
    assert record_batches.copy_batch(batch, CODECS["lz4"]).data is batch.data
    text = b"".join(b"%d of the many words, " % (n % 97) for n in range(8000))
    assert codecs.compress(codecs.LZ4, text) == codecs.compress(codecs.LZ4, text, 9), "the default"
    fast, high = (len(codecs.compress(codecs.LZ4, text, level)) for level in (9, 12))
    assert high < fast, "other levels are the high compressor's"
    for codec in CODECS.values():
        assert codecs.decompress(codec, codecs.compress(codec, text)) == text
    for codec in (codecs.GZIP, codecs.SNAPPY, codecs.LZ4, codecs.ZSTD, 5):
        with pytest.raises(ValueError, match=r"."):
            codecs.decompress(codec, b"no such thing" * 9)


@settings(max_examples=60)
@given(RECORDS, st.sampled_from(range(5)), st.integers(0, 2**40))
def test_records_are_read_as_another_reader_reads_them(written, codec, base):
    data = build(written, codec=codec, base=base)
    found = [(r.timestamp, r.key, r.value, list(r.headers)) for r in record_batches.records(data)]
    assert found == records_of(data) == written
    assert [r.offset for r in record_batches.records(data)] == list(range(base, base + len(written)))


@settings(max_examples=60)
@given(RECORDS, st.sampled_from([0, 1]), st.sampled_from([0, 1, 2]))
def test_messages_of_the_old_formats_are_read_as_another_reader_reads_them(written, magic, codec):
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for offset, (timestamp, key, value, _) in enumerate(written):
        builder.append(offset, timestamp, key, value)
    data = bytearray(builder.build())
    if codec:
        struct.pack_into(">q", data, 0, len(written) - 1)  # a broker gives a compressed one the offset of its last
    data = bytes(data)
    found = [(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in record_batches.records(data)]
    reader, theirs = MemoryRecords(data), []
    while reader.has_next():
        theirs += [(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in reader.next_batch()]
    assert found == theirs


def test_a_batch_with_fewer_records_than_its_header_counts_is_corrupt():
    data = bytearray(build([(1, b"k", b"v", [])]))
    struct.pack_into(">i", data, 57, 3)
    with pytest.raises(record_batches.CorruptBatch, match="fewer records"):
        list(record_batches.records(bytes(data)))
    legacy = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    legacy.append(0, 1, b"k", b"v")
    damaged = bytearray(legacy.build())
    damaged[-1] ^= 1
    with pytest.raises(record_batches.CorruptBatch, match="CRC"):
        list(record_batches.records(bytes(damaged)))
