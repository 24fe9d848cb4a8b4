"""The epoch of the record before an offset is that of the last batch that begins before it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.model.leader_epochs import UNKNOWN, LeaderEpochs

STEPS = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2), st.integers(0, 3)), max_size=20)


@given(st.integers(0, 9), st.integers(-1, 2), STEPS)
def test_epochs_are_those_of_the_records_before_the_offsets_that_are_asked_for(begin, before, steps):
    """Batches of some records each, behind gaps of compaction, by leaders whose epochs grow; each end of a batch is asked for."""
    epochs, of_record = LeaderEpochs.before_position(begin, before), {begin - 1: before}
    offset, epoch, asked = begin, max(before, 0), [begin]
    for records, more, gap in steps:
        epoch += more
        offset += gap
        epochs.read(offset, epoch)
        offset += records
        of_record[offset - 1] = epoch
        asked.append(offset)
    assert epochs.last == of_record[offset - 1]
    assert [epochs.at(at) for at in asked] == [of_record[at - 1] for at in asked]


def test_a_batch_without_an_epoch_or_with_an_older_one_makes_them_unknown():
    epochs = LeaderEpochs.before_position(10, 5)
    epochs.read(10, UNKNOWN)
    assert (epochs.last, epochs.at(12)) == (UNKNOWN, UNKNOWN)
    epochs.read(12, 7)
    epochs.read(20, 6)
    assert (epochs.last, epochs.at(22)) == (6, 6)
    assert LeaderEpochs().at(3) == UNKNOWN


def test_the_epoch_of_a_record_is_unknown_before_the_first_read_offset():
    epochs = LeaderEpochs()
    epochs.read(100, 3)
    assert (epochs.at(100), epochs.at(101)) == (UNKNOWN, 3)
