"""The status of a process, as the lag inspector and the commands read it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.catalogue import BY_NAME
from metrics.process_status import ProcessStatus, Sample

FLOW = ("a", "b")
SLOTS, PAUSED, LAG = "kafka_mirror_slots", "kafka_mirror_partition_paused", "kafka_mirror_lag_records"
values = st.floats(allow_nan=False, allow_infinity=False)


@given(st.dictionaries(st.tuples(st.text(), st.text()), values))
def test_a_status_is_read_back_as_it_was_written(series):
    """Aliases are any text, values any number."""
    written = ProcessStatus.of({SLOTS: series})
    found = list(ProcessStatus.parse(written.text()).samples((SLOTS,)))
    assert found == [
        Sample(SLOTS, dict(zip(BY_NAME[SLOTS].labels, of, strict=True)), value) for of, value in series.items()
    ]


def test_a_status_has_only_the_faults_of_partitions():
    """A quarter of a million healthy partitions cost nothing."""
    partitions = {(*FLOW, "t", str(number)): float(number == 7) for number in range(10)}
    status = ProcessStatus.of({PAUSED: partitions, LAG: dict.fromkeys(partitions, 5.0), SLOTS: {FLOW: 2.0}})
    assert [(each.name, each.flow, each.labels.get("partition")) for each in status.samples((PAUSED, LAG, SLOTS))] == [
        (PAUSED, "a->b", "7"),
        (SLOTS, "a->b", None),
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", json.dumps({"families": [1]}), json.dumps({"families": {SLOTS: [[1, 2]]}})]
)
def test_a_status_of_another_kind_is_refused(text):
    with pytest.raises(ValueError, match=r"not the status of a process|Expecting value"):
        ProcessStatus.parse(text)
