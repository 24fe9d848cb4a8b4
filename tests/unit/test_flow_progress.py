"""Reports of windows in; when a flow reported last, and what its partitions lost, out."""

from __future__ import annotations

from mirror.lag.flow_progress import FlowProgress
from tests.unit.test_metrics import report

FLOW, OTHER = ("a", "b"), ("c", "b")
PLACES = tuple(("a", "b", "a.t", partition) for partition in "01")


def test_a_flows_last_report_is_its_last_window_or_the_first_expected_report():
    progress = FlowProgress()
    assert progress.last_report_s(FLOW) is None
    progress.expect({FLOW, OTHER}, now_s=10.0)
    progress.record_windows([report()], now_s=20.0)
    progress.expect({FLOW, OTHER}, now_s=30.0)
    assert (progress.last_report_s(FLOW), progress.last_report_s(OTHER)) == (20.0, 10.0)


def test_a_returned_flow_must_report_from_its_return_on():
    progress = FlowProgress()
    progress.record_windows([report()], now_s=20.0)
    progress.expect({OTHER}, now_s=30.0)
    assert progress.last_report_s(FLOW) is None
    progress.expect({FLOW, OTHER}, now_s=40.0)
    assert progress.last_report_s(FLOW) == 40.0


def test_lost_offsets_add_up_for_each_partition_until_it_leaves():
    progress = FlowProgress()
    for lost in (3, 0, 4):
        progress.record_windows([report()._replace(lost=lost), report(partition=1)], now_s=1.0)
    assert [progress.lost_offsets(place) for place in PLACES] == [7, 0]
    progress.keep_only([PLACES[1]])
    assert progress.lost_offsets(PLACES[0]) == 0
