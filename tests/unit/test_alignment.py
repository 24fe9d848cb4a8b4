"""What the log shows of logs that are not compared: an operator sees why a partition waits."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mirror.kafka.errors import NotConnectedError
from mirror.model.flow_plan import PlannedPartition
from mirror.replication.alignment import Alignment, LogComparison
from mirror.replication.partition import Partition
from mirror.replication.read_ahead import ReadAhead

pytestmark = pytest.mark.usefixtures("virtual_clock")


class Logs:
    """Remote logs whose broker does not respond, or refuses connections."""

    def __init__(self, *, refuses: bool) -> None:
        self._refuses = refuses
        self.reader = self

    def begin_window(self) -> None: ...

    async def open(self, _topics: object) -> None:
        if self._refuses:
            raise NotConnectedError("b1:9092 refuses connections")
        await asyncio.sleep(100)


def logged(caplog: Any, logs: Logs, window_s: float) -> list[str]:
    """Return the warnings of one window."""

    async def window() -> None:
        compared = Alignment(
            name="A->B",
            source=None,
            comparison=LogComparison(logs, None, is_complete=True),
            partitions=[Partition(PlannedPartition("t", "A.t", 0, "id", is_identical=True), 5, 5)],
            pauses=None,
            read_ahead=ReadAhead(),
            isolation_level=0,
            on_aligned=lambda _: None,
            on_doubt=lambda _: None,
        )
        running = asyncio.create_task(compared.run())
        await asyncio.sleep(window_s)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    with caplog.at_level(logging.WARNING, "mirror"):
        asyncio.run(window())
    return [record.getMessage() for record in caplog.records]


def test_a_comparison_that_fails_again_is_logged_once_a_window(caplog):
    assert logged(caplog, Logs(refuses=True), 10) == [
        "A->B: logs cannot be compared (b1:9092 refuses connections), retrying"
    ]


@pytest.mark.parametrize(
    ("window_s", "expected"),
    [(0.5, []), (3, ["A->B: the window ended 3.0 s after the comparison of the logs of 1 partitions (t-0) began"])],
)
def test_a_comparison_that_the_windows_end_interrupts_is_logged(caplog, window_s, expected):
    assert logged(caplog, Logs(refuses=False), window_s) == expected
