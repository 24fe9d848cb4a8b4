"""What a record of the offset map says of a position that the target has forgotten."""

from __future__ import annotations

import pytest

from mirror.kafka.forgotten_positions import _position
from mirror.model.flow_plan import PlannedPartition
from mirror.model.offset_map import OffsetMap, OffsetRun
from mirror.model.offset_map_tail import MapRecord

NOW = PlannedPartition("t", "a.t", 0, "source", remote_id="target")
RUNS = OffsetMap(
    [OffsetRun(0, 0, 10), OffsetRun(15, 12, 5)]
)  # up to source offset 20, and offset 17 of the remote topic


@pytest.mark.parametrize(
    ("ids", "end", "expected"),
    [
        pytest.param("source:target", 17, (20, "source:target 15,12,5"), id="as the map says"),
        pytest.param("source:target", 30, (20, "source:target 15,12,5"), id="more is there, which is compared"),
        pytest.param("", 17, (20, "source:target 15,12,5"), id="of a version that did not write ids"),
        pytest.param("source:target", 16, (19, "source:target 15,12,4"), id="shorter: its log was cut"),
        pytest.param("source:target", 11, (10, "source:target 0,0,10"), id="cut in a gap"),
        pytest.param("source:target", 0, None, id="cut to nothing, to be filled"),
        pytest.param("", 16, None, id="shorter, and without ids: created again, to be filled"),
        pytest.param("before:target", 17, (20, "before:target 15,12,5"), id="the source's topic was replaced"),
        pytest.param("source:before", 3, (20, "source:before 15,12,5"), id="the remote topic was replaced"),
    ],
)
def test_a_position_is_where_the_map_ends_and_of_the_topics_that_the_map_is_of(ids, end, expected):
    """Where a topic was replaced, its old id goes with the position, by which a window knows (mirror.recreated.topics)."""
    assert _position(NOW, MapRecord("t", 0, RUNS, ids), end) == expected
