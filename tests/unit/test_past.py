"""The past from Prometheus: samples become spans, and nothing that happened between two samples is lost."""

from __future__ import annotations

import pytest

from app.past import HAPPENED, Event, Span, flow_points, runs, spans
from dashboards.recording import FLOW_LAG, FLOW_LAG_SECONDS, WORST
from metrics.partition_status import Status
from metrics.trend import Point

ABOUT = {"source": "a", "target": "b"}
STALL = Event("status a->b", "STALL", "ill")


class Server:
    """Answers as mirror.runtime.prometheus.Prometheus does; `series` by a part of the query."""

    def __init__(self, series):
        self.series, self.asked = series, []

    def query_range(self, expr, **_):
        self.asked.append(expr)
        return next((found for part, found in self.series.items() if part in expr), [])


def samples(*at_and_value):
    return [[at, str(value)] for at, value in at_and_value]


@pytest.mark.parametrize(
    ("what", "values", "found"),
    [
        ("nothing", [], []),
        ("one sample stands for the step before it", samples((60, 5)), [Span(STALL, 0, 60)]),
        ("neighbours are one", samples((60, 5), (120, 5)), [Span(STALL, 0, 120)]),
        ("a gap parts them", samples((60, 5), (180, 5)), [Span(STALL, 0, 60), Span(STALL, 120, 180)]),
        ("what is OK is no span", samples((60, 1), (120, 5), (180, 1)), [Span(STALL, 60, 120)]),
    ],
)
def test_runs(what, values, found):
    said = HAPPENED[next(expr for expr in HAPPENED if WORST in expr)]
    assert runs(values, 60, lambda value: said({"source": "a", "target": "b"}, value)) == found, what


def test_everything_that_happened_has_its_lane():
    server = Server(
        {
            "ALERTS": [
                {
                    "metric": {
                        "alertname": "KafkaMirrorStalled",
                        "alertstate": state,
                        "severity": "critical",
                        "topic": "a.t",
                        "source": "a",
                        "target": "b",
                    },
                    "values": samples((60, 1)),
                }
                for state in ("pending", "firing")
            ],
            WORST: [{"metric": {"source": "a", "target": "b"}, "values": samples((60, 5))}],
            "process_start_time": [{"metric": {"instance": "x:1"}, "values": samples((60, 1))}],
            "takeovers": [{"metric": {"source": "a", "target": "b"}, "values": samples((60, 1))}],
            "by (version)": [{"metric": {"version": "1.2"}, "values": samples((60, 1))}],
        }
    )
    found = [span.said for span in spans(server, start_s=0, end_s=60, step_s=60)]
    assert found == [
        Event("alert", "KafkaMirrorStalled a->b a.t", "pending", "pending"),
        Event("alert", "KafkaMirrorStalled a->b a.t", "ill", "firing"),
        STALL,
        Event("restart", "x:1", "warn"),
        Event("takeover", "a->b", "warn"),
        Event("version", "1.2", "idle"),
    ]
    assert all("[step]" not in expr and "[window]" not in expr for expr in server.asked)
    assert any("[120s]" in expr for expr in server.asked)  # two scrapes, however short the step


def test_a_flows_last_hour_has_a_point_a_minute_and_no_guess():
    about = {"source": "a", "target": "b"}
    server = Server(
        {
            WORST: [{"metric": about, "values": samples((60, 5), (120, 1))}],
            FLOW_LAG_SECONDS: [{"metric": about, "values": samples((60, 30.5))}],
            FLOW_LAG: [{"metric": about, "values": samples((120, 0))}],
        }
    )
    assert flow_points(server, 130.0) == {
        "a->b": [
            Point(0.0, Status.STALL, 30.5, None, None, None),
            Point(60.0, Status.OK, None, 0, None, None),
        ]
    }
