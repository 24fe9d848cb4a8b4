"""Define the row that every lag view shows, one per group and partition. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from metrics.partition_status import Status

RowKey = tuple[str, ...]


def lag_between(offset: int | None, log_end: int | None) -> int | None:
    """Return the records between two offsets, never below 0; None if either is unknown."""
    return None if offset is None or log_end is None else max(0, log_end - offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """One group's offset in one partition, at one poll.

    Unknown is None or "", never 0. A flow is a group whose offsets are its positions. The driver's metrics and the lag
    inspector show the same rows.
    """

    group: str  # a flow's name is "A->B"
    cluster: str  # that has the topic and the log end: a flow's source
    topic: str
    partition: int
    offset: int | None
    log_end: int | None
    owner: str = ""  # member that reads the partition; of a flow the address of its process
    is_flow: bool = False
    remote_topic: str = ""  # of a flow: the topic's name on the target
    lag_seconds: float | None = None  # how long the first unreplicated record has waited at the poll
    status: Status = Status.UNKNOWN
    reason: str = ""
    records_per_s: float | None = None  # that its offset passes
    written_per_s: float | None = None  # that the log end passes
    level_in_s: float | None = None  # until lag 0 at the present rates; None at lag 0, or if the lag does not shrink
    log_start: int | None = None
    # epoch; records written before are on the target. lag_seconds counts from it. None at lag 0: up to the poll
    replicated_until_s: float | None = None
    held_by: str = ""  # the open transaction that all waiting records wait for
    offsets: str = ""  # of a flow: "identical" on both clusters, or "translated"
    is_complete: bool = True  # False while the status is made from fewer polls than a window has

    @property
    def key(self) -> RowKey:
        """Key of its polls.

        That of a flow's row has the labels of its series, so that the inspector can read the driver's polls.
        """
        source, arrow, target = self.group.partition("->")
        if self.is_flow and arrow:
            return source, target, self.remote_topic, str(self.partition)
        topic = self.remote_topic if self.is_flow else self.topic
        return "group", self.cluster, self.group, topic, str(self.partition)

    @property
    def lag(self) -> int | None:
        """Records not yet read or replicated, never below 0; None while either end is unknown."""
        return lag_between(self.offset, self.log_end)
