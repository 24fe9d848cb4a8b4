"""Define the dashboards: few, linked, one question each. Queries are in dashboards/queries.py."""

from __future__ import annotations

from dashboards.boards.engine import engine
from dashboards.boards.failover import failover
from dashboards.boards.overview import overview
from dashboards.boards.parity import parity
from dashboards.boards.slo import slo
from dashboards.boards.topic import topic
from dashboards.panels import Board


def boards() -> tuple[Board, ...]:
    """Return all dashboards, starting with the overview."""
    return overview(), topic(), failover(), engine(), slo(), parity()
