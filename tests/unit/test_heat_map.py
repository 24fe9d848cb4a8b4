"""The map of topic-partitions: worst topics first, partitions in order, a word for each cell that is not level."""

from __future__ import annotations

from dataclasses import replace

from app.heat_map import cells, legend_html, summary
from metrics.partition_status import Status
from tests.unit.test_app import HOSTILE, STALLED, consumer, flow

ROWS = [flow("orders", 1), flow("orders", 0), STALLED, flow("payments", 0), consumer()]


def test_topics_are_worst_first_and_partitions_in_order():
    assert [(block["topic"], [cell[0] for cell in block["cells"]]) for block in cells(ROWS)] == [
        ("payments", [0, 3]),
        ("orders", [0, 1]),
    ]


def test_topics_are_grouped_by_flow_the_worst_first():
    others = [replace(flow("users", 0), group="a->c"), replace(flow("audit", 0), group="a->c")]
    assert [(block["group"], block["topic"]) for block in cells([*others, *ROWS])] == [
        ("a->b", "payments"),
        ("a->b", "orders"),
        ("a->c", "audit"),
        ("a->c", "users"),
    ]


def test_a_cell_that_lags_has_its_reason():
    (level, stalled), _ = (block["cells"] for block in cells(ROWS))
    assert level == [0, "●", "ok", ""]
    assert stalled == [3, "■", "ill", "■ STALL, lag 45, time lag 15.0 min: stalled at offset 5 for 45 s"]


def test_groups_have_no_cells():
    assert cells([consumer()]) == []


def test_a_topic_keeps_its_place_while_its_status_stays():
    def order(rows):
        return [block["topic"] for block in cells(rows)]

    before = [flow("b", 0), flow("a", 0), flow("c", 0), STALLED]
    after = [replace(row, log_end=row.log_end + number) for number, row in enumerate(before)]
    assert order(before) == order(after) == [STALLED.topic, "a", "b", "c"]


def test_the_legend_counts_statuses_the_worst_first():
    html = legend_html(ROWS)
    assert html.index("1 STALL") < html.index("3 OK")
    assert 'href="/partitions?status=STALL"' in html
    assert summary(ROWS).startswith("Map of partitions by status: 1 STALL, 3 OK.")
    assert summary([]).startswith("Map of partitions by status: none.")


def test_a_map_of_ten_thousand_has_no_text_for_healthy_cells():
    rows = [flow(f"topic-{number // 20:04d}", number % 20) for number in range(10_000)]
    assert sum(len(cell[3]) for block in cells(rows) for cell in block["cells"]) == 0
    assert all(Status.OK.name not in str(cell) for block in cells(rows) for cell in block["cells"])


def test_names_of_strangers_stay_data():
    assert cells([flow(HOSTILE)])[0]["topic"] == HOSTILE  # which the script shows as text
    assert "<img" not in legend_html([flow(HOSTILE, reason=HOSTILE)])
