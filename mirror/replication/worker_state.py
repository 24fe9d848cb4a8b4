"""Hold the state that a worker process keeps between windows: one object, created by `worker.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

from mirror.replication.connections import ConnectionRegistry
from mirror.replication.ledger import NewestGaps
from mirror.replication.pauses import LoggedReasons


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The state of one worker process. Two simulated processes in one Python process have one each.

    Attributes:
        connections: The clients of each flow.
        logged_reasons: The reasons that this process has logged for paused partitions.
        newest_gaps: The last gap of each partition that this process wrote into the ledger.
    """

    connections: ConnectionRegistry = field(default_factory=ConnectionRegistry)
    logged_reasons: LoggedReasons = field(default_factory=LoggedReasons)
    newest_gaps: NewestGaps = field(default_factory=dict)
