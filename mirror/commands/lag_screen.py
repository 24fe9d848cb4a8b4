"""Show lag live in a terminal: flows above, rows below, largest lag first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static

from metrics.lag_row import LagRow, RowKey
from metrics.partition_status import Sample
from metrics.trend import Trend
from mirror.lag.flow_summary import summaries
from mirror.lag.snapshot import Problem, Snapshot
from mirror.lag.terminal import COLUMNS, NUMBERS, SORTS, cells, colour, filtered, flow_line

MOST_ROWS = 500  # more could not be scrolled; the filter finds the other rows


class LagScreen(App[None]):
    """Shows lag live. It polls in a thread, so that keys work while a cluster does not respond."""

    TITLE = "kafka-mirror lag"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #about { height: auto; color: $text-muted; }
    #flows { height: auto; max-height: 8; }
    #filter { display: none; height: 3; }
    DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("s", "sort", "Sort"),
        Binding("l", "lagging", "Only lagging"),
        Binding("slash", "filter", "Filter"),
        Binding("escape", "clear", "Clear filter"),
    ]

    def __init__(
        self,
        poll: Callable[[], Snapshot],
        window: Callable[[LagRow], Sequence[Sample]],
        choose: Callable[[Snapshot], list[LagRow]],
        *,
        every_s: float,
        only_lagging: bool = False,
    ) -> None:
        """Show the rows of `poll` that `choose` picks, every few seconds."""
        super().__init__()
        self._poll, self._window, self._choose = poll, window, choose
        self._every_s = every_s
        self._only_lagging = only_lagging
        self._sorts = list(SORTS)
        self._part = ""
        self._snapshot = Snapshot(time_s=time.time(), rows=(), problems=(Problem("Reading the clusters ..."),))
        self._before: dict[RowKey, int] = {}
        self._trend = Trend()

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Static(id="about")
        yield Static(id="flows")
        yield DataTable(id="rows", cursor_type="row", zebra_stripes=True)
        yield Input(placeholder="part of a group, topic or status; Enter keeps it", id="filter")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to poll."""
        table = self.query_one(DataTable)
        for name in COLUMNS:
            table.add_column(name, key=name)
        table.focus()
        self._show()
        self.run_worker(self._poll_on(), exclusive=True)

    async def _poll_on(self) -> None:
        while True:
            began = time.monotonic()
            snapshot = await asyncio.to_thread(self._poll)
            self._before = {row.key: row.lag for row in self._snapshot.rows if row.lag is not None}
            self._snapshot = snapshot
            for flow in summaries(snapshot):
                self._trend.record(flow.name, flow.point(snapshot.time_s))
            self._show()
            await asyncio.sleep(max(0.2, self._every_s - (time.monotonic() - began)))

    def _show(self) -> None:
        rows = filtered(self._choose(self._snapshot), self._part)
        if self._only_lagging:
            rows = [row for row in rows if row.lag != 0]
        rows = SORTS[self._sorts[0]](rows)
        self.query_one("#about", Static).update(self._about(len(rows)))
        self.query_one("#flows", Static).update(self._flows())
        table = self.query_one(DataTable)
        at = table.cursor_row
        table.clear()
        for row in rows[:MOST_ROWS]:
            table.add_row(*self._styled(row))
        table.move_cursor(row=min(at, max(0, table.row_count - 1)))

    def _about(self, count: int) -> Text:
        at = time.strftime("%H:%M:%S", time.localtime(self._snapshot.time_s))
        chosen = [f"{count:,} rows" + (f", the first {MOST_ROWS}" if count > MOST_ROWS else ""), self._sorts[0]]
        chosen += ["only lagging"] if self._only_lagging else []
        chosen += [f'"{self._part}"'] if self._part else []
        said = Text(f"{at}, every {self._every_s:g} s   {', '.join(chosen)}")
        for problem in self._snapshot.problems:
            said.append(f"\n! {problem}", style="bold magenta")
        return said

    def _flows(self) -> Text:
        lines = [
            Text(flow_line(flow, self._trend.of(flow.name)), style=f"bold {colour(flow.worst)}")
            for flow in summaries(self._snapshot)
        ]
        return Text("\n").join(lines)

    def _styled(self, row: LagRow) -> list[Text]:
        said = cells(row, self._before, self._window(row))
        return [
            Text(
                cell,
                style=colour(row.status) if name == "Status" else "",
                justify="right" if name in NUMBERS else "left",
            )
            for name, cell in zip(COLUMNS, said, strict=True)
        ]

    def action_sort(self) -> None:
        """Sort by the next order."""
        self._sorts = [*self._sorts[1:], self._sorts[0]]
        self._show()

    def action_lagging(self) -> None:
        """Show only lagging rows, or all."""
        self._only_lagging = not self._only_lagging
        self._show()

    def action_filter(self) -> None:
        """Show the input for a part of a name."""
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def action_clear(self) -> None:
        """Show all names again."""
        self._part = ""
        field = self.query_one(Input)
        field.value, field.display = "", False
        self.query_one(DataTable).focus()
        self._show()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the text is typed."""
        self._part = event.value
        self._show()

    def on_input_submitted(self) -> None:
        """Keep the filter, and return to the rows."""
        self.query_one(Input).display = False
        self.query_one(DataTable).focus()
