"""Define the row of every lag view, one per group and partition. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from metrics.partition_status import Status

RowKey = tuple[str, ...]


def lag_between(offset: int | None, log_end: int | None) -> int | None:
    """Return the records between two offsets, never below 0; None if either is unknown."""
    return None if offset is None or log_end is None else max(0, log_end - offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """One group's offset on one partition, at one poll.

    An unknown value is None or "", never 0. A flow counts as a group whose offsets are the flow's positions. The driver's
    metrics and the lag inspector show the same rows.
    """

    group: str  # a flow's name is "A->B"
    cluster: str  # the cluster with the topic and the log end; for a flow, its source
    topic: str
    partition: int
    offset: int | None
    log_end: int | None
    owner: str = ""  # member that reads the partition; for a flow, the address of its process
    is_flow: bool = False
    remote_topic: str = ""  # for a flow: the topic's name on the target
    # how long the first unreplicated record had waited at the poll; for another group, an estimate for its next record
    lag_seconds: float | None = None
    status: Status = Status.UNKNOWN
    reason: str = ""
    records_per_s: float | None = None  # how fast the offset grows
    written_per_s: float | None = None  # how fast the log end grows
    level_in_s: float | None = None  # until lag 0 at the current rates; None at lag 0, or if the lag does not shrink
    log_start: int | None = None
    # epoch; all records written before are on the target; lag_seconds is the time since then. None at lag 0: until the poll
    replicated_until_s: float | None = None
    held_by: str = ""  # the open transaction that all waiting records wait for
    offsets: str = ""  # for a flow: "identical" on both clusters, or "translated"
    is_complete: bool = True  # False while the status is derived from too few polls

    @property
    def key(self) -> RowKey:
        """Key of the row's polls.

        For a flow, the key has the labels of its series, so that the inspector can read the driver's polls.
        """
        source, arrow, target = self.group.partition("->")
        if self.is_flow and arrow:
            return source, target, self.remote_topic, str(self.partition)
        topic = self.remote_topic if self.is_flow else self.topic
        return "group", self.cluster, self.group, topic, str(self.partition)

    @property
    def lag(self) -> int | None:
        """Records not yet read or replicated, never below 0; None if either end is unknown."""
        return lag_between(self.offset, self.log_end)
