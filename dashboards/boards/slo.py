"""Lay out the board of the freshness objective."""

from __future__ import annotations

from dashboards import queries as q
from dashboards.boards.words import FLOW, NO_ALERT, SHARE
from dashboards.panels import BAD, GOOD, WARN, Board, Panel, Query, Row, lines, stat
from metrics.objective import FRESH_S, OBJECTIVE


def slo() -> Board:
    """Return the board of the freshness objective."""
    return Board(
        uid="kafka-mirror-slo",
        title="Kafka mirror: objective",
        question=f"Are {OBJECTIVE:.1%} of topic-partitions fresh, and if not, when did we lose it?",
        rows=(_budget(), _when()),
    )


def _budget() -> Row:
    """Return the row "Budget"."""
    return Row(
        "Budget",
        (
            stat(
                "Fresh now",
                f"Share of topic-partitions not more than {FRESH_S} s behind.",
                q.fresh_ratio(),
                "percentunit",
                SHARE,
            ),
            stat(
                "Budget left",
                "Of 30 days; below 0 it is overspent.",
                q.budget_left(),
                "percentunit",
                ((None, BAD), (0.0, WARN), (0.5, GOOD)),
            ),
            stat(
                "Burn, 1 h",
                "1 is the allowance; above 14.4 somebody is woken.",
                f"max({q.burn('1h')})",
                "short",
                ((None, GOOD), (1.0, WARN), (14.4, BAD)),
            ),
            stat(
                "Burn, 6 h",
                "Above 6 somebody is woken.",
                f"max({q.burn('6h')})",
                "short",
                ((None, GOOD), (1.0, WARN), (6.0, BAD)),
            ),
            stat(
                "Burn, 1 d",
                "Above 3 is a warning.",
                f"max({q.burn('1d')})",
                "short",
                ((None, GOOD), (1.0, WARN), (3.0, BAD)),
            ),
            stat("Burn, 3 d", "Above 1 is a warning.", f"max({q.burn('3d')})", "short", ((None, GOOD), (1.0, WARN))),
        ),
    )


def _when() -> Row:
    """Return the row "When"."""
    return Row(
        "When",
        (
            lines("Fresh topic-partitions", "By flow.", "percentunit", Query(q.fresh_by_flow(), FLOW), width=12),
            lines(
                "Burn rate",
                "Over an hour and six: how many times faster than allowed.",
                "short",
                Query(q.burn("1h"), f"{FLOW} 1 h"),
                Query(q.burn("6h"), f"{FLOW} 6 h"),
                width=12,
            ),
            lines(
                "Latency, p99",
                "The second view: only of records that arrived.",
                "s",
                Query(q.latency_by_flow("p99"), FLOW),
                width=12,
                may_be_empty="nothing was copied lately",
            ),
            Panel(
                kind="stack",
                title="Alerts",
                description="Firing, by name.",
                unit="short",
                width=12,
                queries=(Query(q.alerts_by_name(), "{{alertname}}"),),
                may_be_empty=NO_ALERT,
            ),
        ),
    )
