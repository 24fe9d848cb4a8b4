"""Lay out the dashboard of the freshness objective."""

from __future__ import annotations

from dashboards import queries as q
from dashboards.boards.words import FLOW, NO_ALERT, SHARE
from dashboards.panels import BAD, GOOD, WARN, Board, Panel, Query, Row, lines, stat
from metrics.objective import FRESH_S, OBJECTIVE


def slo() -> Board:
    """Return the dashboard of the freshness objective."""
    return Board(
        uid="kafka-mirror-slo",
        title="Kafka mirror: objective",
        question=f"Are {OBJECTIVE:.1%} of partitions fresh, and if not, since when?",
        rows=(_budget(), _when()),
    )


def _budget() -> Row:
    """Return the row "Budget"."""
    return Row(
        "Budget",
        (
            stat(
                "Fresh now",
                f"Share of partitions whose first unreplicated record has waited at most {FRESH_S} s.",
                q.fresh_ratio(),
                "percentunit",
                SHARE,
            ),
            stat(
                "Budget left",
                "Share of the 30-day budget that is left; below 0 it is overspent.",
                q.budget_left(),
                "percentunit",
                ((None, BAD), (0.0, WARN), (0.5, GOOD)),
            ),
            stat(
                "Burn, 1 h",
                "Burn rate over 1 h; 1 is the allowance. Above 14.4, a critical alert fires.",
                f"max({q.burn('1h')})",
                "short",
                ((None, GOOD), (1.0, WARN), (14.4, BAD)),
            ),
            stat(
                "Burn, 6 h",
                "Burn rate over 6 h. Above 6, a critical alert fires.",
                f"max({q.burn('6h')})",
                "short",
                ((None, GOOD), (1.0, WARN), (6.0, BAD)),
            ),
            stat(
                "Burn, 1 d",
                "Burn rate over 1 d. Above 3, a warning fires.",
                f"max({q.burn('1d')})",
                "short",
                ((None, GOOD), (1.0, WARN), (3.0, BAD)),
            ),
            stat(
                "Burn, 3 d",
                "Burn rate over 3 d. Above 1, a warning fires.",
                f"max({q.burn('3d')})",
                "short",
                ((None, GOOD), (1.0, WARN)),
            ),
        ),
    )


def _when() -> Row:
    """Return the row "Over time"."""
    return Row(
        "Over time",
        (
            lines("Fresh partitions", "Share by flow.", "percentunit", Query(q.fresh_by_flow(), FLOW), width=12),
            lines(
                "Burn rate",
                "Over 1 h and 6 h; 1 is the allowance.",
                "short",
                Query(q.burn("1h"), f"{FLOW} 1 h"),
                Query(q.burn("6h"), f"{FLOW} 6 h"),
                width=12,
            ),
            lines(
                "Latency, p99",
                "Replication latency of copied records; waiting records do not count.",
                "s",
                Query(q.latency_by_flow("p99"), FLOW),
                width=12,
                may_be_empty="no record was copied recently",
            ),
            Panel(
                kind="stack",
                title="Alerts",
                description="Firing alerts by name.",
                unit="short",
                width=12,
                queries=(Query(q.alerts_by_name(), "{{alertname}}"),),
                may_be_empty=NO_ALERT,
            ),
        ),
    )
