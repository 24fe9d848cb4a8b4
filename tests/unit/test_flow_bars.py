"""The bar of a flow: which is ill, since when, what would be lost, where to click; nothing unknown as if it were known."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from app.flow_bars import FlowBar, bars_html, headline, rpo, since
from metrics.partition_status import Status
from metrics.trend import Point, UnhealthySince, unhealthy_since
from mirror.lag.failover import Answer, FailoverReadiness, Objective, Planned
from mirror.lag.flow_summary import summaries
from mirror.lag.snapshot import Snapshot
from tests.unit.test_app import HOSTILE, STALLED, flow

NOW_S = 36_000.0
GO = FailoverReadiness(flow="a->b", planned=Planned.READY, objective=Objective.WITHIN, answer=Answer.GO)
UNKNOWN = replace(
    flow("dark"), log_end=None, lag_seconds=None, status=Status.UNKNOWN, reason="its log end has not been read"
)


def summary(*rows):
    (found,) = summaries(Snapshot(time_s=NOW_S, rows=rows))
    return found


def bar(*rows, points=()) -> FlowBar:
    return FlowBar(flow=summary(*rows), points=points, unhealthy_since=unhealthy_since(points), failover=GO)


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).strip()


def test_an_unhealthy_flow_shows_its_status_time_and_partition():
    points = [Point(NOW_S - 720, Status.OK, 0.0, 0, 1.0, 1.0)]
    points += [Point(NOW_S - 60 * minute, Status.STALL, 900.0, 45, 1.0, 0.0) for minute in range(11, -1, -1)]
    html = bars_html([bar(flow(), STALLED, points=points)], NOW_S)
    said = text_of(html)
    assert "■ STALL a-&gt;b not OK for 11.0 min" in said
    assert "RPO now 15.0 min 45 records" in said
    assert "Waits of the last hour: up to 15.0 min 15 min 0 1 h ago now" in said
    assert html.count('class="objective"') == 1
    assert "payments-3 stalled at offset 5 for 45 s." in said
    assert 'href="/partition?group=a-%3Eb&amp;cluster=a&amp;topic=payments&amp;partition=3"' in html
    assert 'href="/partitions?source=a&amp;target=b&amp;group=a-%3Eb"' in html
    assert html.count("<rect") == 13


def test_a_healthy_flow_shows_no_reason():
    said = text_of(bars_html([bar(flow())], NOW_S))
    assert "RPO now 0 s no record waits" in said
    assert "Why?" not in said
    assert "all fresh" in said


def test_a_healthy_flow_has_no_colour_of_trouble():
    """Waits of some records and an hour of small waits are normal: green means nothing to do."""
    points = [Point(NOW_S - 60 * minute, Status.OK, 0.7, 20, 1.0, 1.0) for minute in range(59, -1, -1)]
    html = bars_html([bar(flow(end=13, waits=0.2), points=points)], NOW_S)
    assert {"warn", "ill", "unknown"} & set(
        re.findall(r"[\w-]+", " ".join(re.findall(r'class="([^"]*)"', html)))
    ) == set()
    assert "RPO now 0.2 s 3 records" in text_of(html)
    highest = max(float(height) for height in re.findall(r'<rect[^>]* height="([\d.]+)"', html))
    assert highest < 28 / 4, "the scale is 10 s at least"
    assert 'class="objective"' not in html  # of 60 s


def test_unknown_values_are_shown_as_unknown():
    said = text_of(bars_html([bar(UNKNOWN)], NOW_S))
    assert "RPO now unknown" in said
    assert "In → out unknown → unknown" in said
    assert "Waits of the last hour: unknown" in said
    assert "0.0% known to be fresh" in said


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((flow(),), ("0 s", "no record waits")),
        ((STALLED,), ("15.0 min", "45 records")),
        ((STALLED, UNKNOWN), ("at least 15.0 min", "at least 45 records")),
        ((UNKNOWN,), ("unknown", "")),
        ((flow(), UNKNOWN), ("unknown", "")),
    ],
)
def test_records_at_risk_are_counted(rows, said):
    assert rpo(summary(*rows)) == said


def test_an_unseen_start_of_a_fault_is_shown_as_at_least():
    own = bar(STALLED)
    assert since(own, NOW_S) == ""
    assert since(replace(own, unhealthy_since=UnhealthySince(NOW_S - 30, False)), NOW_S) == "not OK for at least 30.0 s"


@pytest.mark.parametrize(
    ("snapshot", "said"),
    [
        ((), "No flow has partitions yet"),
        ((flow(),), "a->b is healthy"),
        ((flow(), replace(flow(), group="a->c")), "Both flows are healthy"),
        ((flow(), *(replace(flow(), group=name) for name in ("a->c", "a->d"))), "All 3 flows are healthy"),
        ((STALLED, replace(flow(), group="a->c")), "a->b is stalled: records are waiting and none is copied"),
        (
            (STALLED, replace(STALLED, group="a->c")),
            "a->b is stalled: records are waiting and none is copied; 1 other flow has a problem",
        ),
        ((UNKNOWN,), "Status of a->b is unknown"),
        (
            (UNKNOWN, *(replace(UNKNOWN, group=name) for name in ("a->c", "a->d"))),
            "Status of a->b is unknown; 2 other flows have a problem",
        ),
    ],
)
def test_the_headline_answers(snapshot, said):
    assert headline(summaries(Snapshot(time_s=NOW_S, rows=snapshot))) == said


def test_strangers_names_are_text():
    ill = replace(STALLED, topic=HOSTILE, reason=HOSTILE)
    html = bars_html(
        [FlowBar(flow=summary(ill), points=(), unhealthy_since=None, failover=replace(GO, blockers=(HOSTILE + '"',)))],
        NOW_S,
    )
    assert "<img" not in html
    assert "onerror=alert(1)>[" not in html
