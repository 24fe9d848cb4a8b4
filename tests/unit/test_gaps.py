"""Entries of the ledger of gaps, as records, as text, and as metrics."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ledger import MOST, ledger_table
from metrics.recorder import Recorder
from mirror.flows.gaps import by_effect
from mirror.lag.text import gap_csv, gap_json, gap_table
from mirror.model.gaps import Cause, Effect, Gap, set_by_operator, with_gap

LOST = Gap("orders", 3, Effect.LOST, Cause.RETENTION, 40, 74, 1_000_000, "offsets 40 to 74 were deleted", "id")
REFUSED = Gap("=orders", 0, Effect.REFUSED, Cause.REFUSAL, 5, None, 2_000_000, "the target refuses source offset 5")

offsets = st.none() | st.integers(0, 2**63)
gaps = st.builds(
    Gap,
    topic=st.text(),
    partition=st.integers(0, 2**31),
    effect=st.sampled_from(Effect),
    cause=st.sampled_from(Cause),
    first=offsets,
    last=offsets,
    at_ms=st.integers(0, 2**50),
    said=st.text(),
    topic_id=st.text(),
)


@given(gaps)
def test_a_record_is_read_back_as_it_was(gap):
    key, value = gap.encode()
    assert Gap.decode(value) == gap
    assert key == gap.key


@given(
    st.none() | st.binary() | st.text().map(str.encode) | st.just(b"{}") | st.just(b"[1]") | st.just(b'{"topic": 1}')
)
def test_a_foreign_record_is_not_a_gap(value):
    assert Gap.decode(value) is None


def test_a_gap_that_is_found_again_replaces_itself():
    """After a crash before the position was committed: retention has gone on meanwhile."""
    again = LOST._replace(last=99, at_ms=3_000_000)
    assert again.key == LOST.key
    assert with_gap([LOST, REFUSED], again) == [REFUSED, again]
    elsewhere = [LOST._replace(**{name: value}) for name, value in (("first", 41), ("partition", 4), ("topic_id", "2"))]
    assert len({gap.key for gap in [LOST, *elsewhere, LOST._replace(cause=Cause.OPERATOR)]}) == 5


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (40, 60, (Effect.SKIPPED, 40, 59)),
        (60, 40, (Effect.REPEATED, 40, 59)),
        (0, 1, (Effect.SKIPPED, 0, 0)),
        (40, 40, None),
    ],
)
def test_a_position_that_is_set_leaves_out_or_has_come_again(before, after, found):
    gap = set_by_operator(("orders", 0), before, after, at_ms=1, topic_id="id")
    assert (gap and (gap.effect, gap.first, gap.last)) == found


def test_unknown_sizes_of_gaps_are_not_numbers():
    assert LOST.offsets == 35
    assert REFUSED.offsets is None
    assert by_effect([LOST, REFUSED, LOST._replace(first=0)]) == {
        "lost": (2, 35 + 75),
        "skipped": (0, 0),
        "repeated": (0, 0),
        "kept": (0, 0),
        "refused": (1, 0),
    }
    lost, refused = json.loads(gap_json("a->b", [LOST, REFUSED]))["gaps"]
    assert (lost["offsets"], lost["cause"], refused["last"], refused["offsets"]) == (35, "retention", None, None)
    rows = list(csv.DictReader(io.StringIO(gap_csv([LOST, REFUSED]))))
    assert [row["offsets"] for row in rows] == ["35", ""]
    assert rows[1]["topic"] == "'=orders", "no formula in a spreadsheet"
    assert gap_table([LOST, REFUSED]) == (
        "found                    effect   topic    partition  first  last  offsets  what happened\n"
        "1970-01-01 00:16:40 UTC  lost     orders           3     40    74       35  offsets 40 to 74 were deleted\n"
        "1970-01-01 00:33:20 UTC  refused  =orders          0      5     ?        ?  the target refuses source offset 5\n"
    )


def test_the_page_shows_the_newest_first_and_so_many():
    many = [LOST._replace(first=number) for number in range(MOST + 5)]
    table = ledger_table(many)
    assert len(table) == MOST
    assert list(table["First"][:2]) == [str(MOST + 4), str(MOST + 3)]


def test_a_ledger_that_cannot_be_read_has_no_series():
    recorder, flow = Recorder(), ("a", "b")

    def series(name: str) -> dict[tuple[str, ...], float]:
        return recorder.snapshot(now_s=0.0)[f"kafka_mirror_{name}"]

    recorder.record_gaps(flow, by_effect([LOST]), last_s=1000.0)
    assert series("gaps")["a", "b", "lost"] == 1
    assert series("gaps")["a", "b", "skipped"] == 0
    assert series("gap_offsets")["a", "b", "lost"] == 35
    recorder.record_gaps(flow, None)
    assert not any(series(name) for name in ("gaps", "gap_offsets", "last_gap_timestamp_seconds"))
