"""`kafka-mirror lag --watch` in a terminal: what is ill on top, and keys that sort, filter, leave out and quit."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest
from textual.widgets import DataTable, Static

from metrics.partition_status import Sample, Status
from mirror.commands.lag_screen import LagScreen
from mirror.lag.flow_summary import summaries
from mirror.lag.snapshot import Problem, Snapshot
from mirror.lag.terminal import blocks, cells, flow_line
from tests.unit.test_app import STALLED, consumer, flow

pytestmark = pytest.mark.usefixtures("virtual_clock")

ROWS = (flow(), STALLED, consumer("audit"))


def driven(drive, *, rows=ROWS, problems=(), **own):
    """Run the screen without a terminal, and `drive` it."""

    async def run():
        def poll():
            return Snapshot(time_s=time.time(), rows=rows, problems=problems)

        screen = LagScreen(
            poll, lambda _: [Sample(1.0, 0, 9), Sample(2.0, 0, 18)], lambda found: list(found.rows), every_s=60, **own
        )
        async with screen.run_test(size=(160, 40)) as pilot:
            await pilot.pause(0.2)
            await drive(screen, pilot)

    asyncio.run(run())


def shown(screen) -> list[tuple[str, str]]:
    table = screen.query_one(DataTable)
    return [(str(line[1]), str(line[2])) for line in (table.get_row_at(number) for number in range(table.row_count))]


def about(screen, name="about") -> str:
    return str(screen.query_one(f"#{name}", Static).render())


def test_the_worst_is_on_top():
    async def drive(screen, _):
        assert shown(screen) == [("a->b", "payments"), ("audit", "orders"), ("a->b", "orders")]
        assert "waiting 45, longest 15.0 min" in about(screen, "flows")
        assert "3 rows, worst first" in about(screen)

    driven(drive)


def test_keys_sort_filter_and_leave_out():
    async def drive(screen, pilot):
        for _ in range(4):
            await pilot.press("s")
        assert "by name" in about(screen)
        assert shown(screen)[0] == ("a->b", "orders")
        await pilot.press("l")
        assert shown(screen) == [("a->b", "payments"), ("audit", "orders")]
        await pilot.press("slash", *"aud", "enter")
        assert shown(screen) == [("audit", "orders")]
        await pilot.press("escape")
        assert len(shown(screen)) == 2

    driven(drive)


def test_q_quits():
    async def drive(screen, pilot):
        await pilot.press("q")
        await pilot.pause()
        assert not screen.is_running

    driven(drive)


def test_problems_are_shown_above_the_table():
    async def drive(screen, _):
        assert "! cluster b: no answer" in about(screen)

    driven(drive, problems=(Problem("Cluster b does not respond.", "cluster b: no answer"),))


def test_only_what_lags_may_be_asked_for_at_the_start():
    async def drive(screen, _):
        assert ("a->b", "orders") not in shown(screen)

    driven(drive, only_lagging=True)


def test_a_row_shows_its_change_and_its_trend():
    samples = [Sample(float(at), 0, at) for at in (0, 5, 10)]
    said = cells(STALLED, {STALLED.key: 40}, samples)
    assert said[:8] == ("STALL", "a->b", "payments", "3", "45", "+5", "▁▅█", "15.0 min")
    dark = replace(STALLED, log_end=None, lag_seconds=None, status=Status.UNKNOWN)
    assert cells(dark, {}, [])[4:8] == ("unknown", "", "", "unknown")


@pytest.mark.parametrize(("values", "said"), [([], ""), ([0, 0], "▁▁"), ([0, None, 7], "▁ █"), ([5] * 20, "█" * 10)])
def test_blocks(values, said):
    assert blocks(values) == said


def test_an_unknown_flow_is_shown_as_unknown():
    dark = replace(STALLED, log_end=None, lag_seconds=None, status=Status.UNKNOWN)
    (summary,) = summaries(Snapshot(time_s=0.0, rows=(dark,)))
    assert "waiting unknown, longest unknown   in unknown, out unknown" in flow_line(summary, [])
