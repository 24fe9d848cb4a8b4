"""Define the engine that runs the driver's windows and checkpoint rounds.

The product has one engine, Spark (`mirror/spark/engine.py`). Most tests run the same driver, planner and workers on an engine
of forked processes (`tests/engine.py`), which starts in half a second (docs/adr/0041).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

from metrics.listener import Stream
from metrics.recorder import Recorder
from mirror.errors import StreamTerminated
from mirror.runtime.state_folder import StateFolder


class Query(Protocol):
    """Work that the engine repeats until it is stopped."""

    def start(self) -> None:
        """Start; raises StreamTerminated if the engine cannot."""

    def revive(self) -> list[StreamTerminated]:
        """Restart ended streams and return the reasons; raises StreamTerminated if the engine itself is gone."""

    def stop(self) -> None:
        """Stop at once."""


class WindowQueries(Query, Protocol):
    """The lanes: each plans a window and serves its slots, then the next one."""

    def finish(self, within_s: float) -> bool:
        """Wait until the running windows have ended, after the plan stops them. Return False on a timeout."""


class Engine(Protocol):
    """Runs the tasks of windows in worker processes, and passes their rows to the recorder."""

    @classmethod
    def start(cls, settings: Mapping[str, str], *, tasks: int) -> Self:
        """Start the engine.

        Args:
            settings: The user's `spark.*` options.
            tasks: How many tasks must be able to run concurrently.

        Raises:
            SettingsError: the engine has no room for so many tasks.
        """

    def listen(self, recorder: Recorder, streams: Mapping[str, Stream[Any]], on_batch: Callable[[str], None]) -> None:
        """Pass the rows of each stream to its `take`, and record progress.

        Args:
            recorder: Records the events of the queries.
            streams: The streams by name.
            on_batch: Called with a query's name when it has completed a micro-batch.
        """

    def lanes(self, folder: StateFolder, *, plan: Path, lanes: int, slots: int, window_ms: int) -> WindowQueries:
        """Return the queries that serve windows, not started yet."""

    def checkpoints(self, folder: StateFolder, *, plan: Path, every_s: float) -> Query:
        """Return the query of checkpoint rounds, not started yet."""

    def silence(self) -> None:
        """Log nothing more: the stop that follows interrupts rounds and tasks."""

    def close(self) -> None:
        """Stop the engine and its processes."""
