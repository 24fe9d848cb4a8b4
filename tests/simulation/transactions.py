"""The coordinator of transactions in memory: who may write by a transactional id, and how a transaction ends.

Source: org.apache.kafka.coordinator.transaction.TransactionCoordinator, with KIP-890 in its second version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from mirror.kafka.errors import ErrorCode
from mirror.model.topic_partition import TopicPartition
from tests.simulation.clock import World

MARKER_S = (0.0005, 0.01)  # until a leader has written a marker
MARKER_AGAIN_S = 0.1

OK = ErrorCode.none


class State(Enum):
    """What may follow: EMPTY -> ONGOING -> ENDING -> COMPLETE -> ONGOING."""

    EMPTY = "empty"
    ONGOING = "ongoing"
    ENDING = "ending"  # decided, and its markers are being written
    COMPLETE = "complete"


@dataclass(slots=True)
class Transaction:
    """The last transaction of a transactional id."""

    name: str
    producer_id: int
    epoch: int = 0
    state: State = State.EMPTY
    is_commit: bool = False
    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    groups: dict[str, None] = field(default_factory=dict)
    count: int = 0  # of transactions begun
    timeout_s: float = 60.0
    left: int = 0  # markers that are not written yet


class Transactions:
    """All transactional ids of a cluster. `write_marker` calls back with True when all replicas have a marker."""

    def __init__(
        self,
        world: World,
        *,
        is_second: bool,
        next_producer_id: Callable[[], int],
        write_marker: Callable[[TopicPartition, int, int, bool, Callable[[bool], None]], None],
        end_offsets: Callable[[str, int, bool], None],
    ) -> None:
        self._world = world
        self._is_second = is_second
        self._next_producer_id = next_producer_id
        self._write_marker = write_marker
        self._end_offsets = end_offsets
        self.by_name: dict[str, Transaction] = {}
        self._by_producer: dict[int, Transaction] = {}

    def init(self, name: str, timeout_s: float) -> tuple[ErrorCode, int, int]:
        """Fence the producer that has an id; return the error, the producer id and its epoch."""
        found = self.by_name.get(name)
        if found is None:
            found = Transaction(name, self._next_producer_id(), timeout_s=timeout_s)
            self.by_name[name] = self._by_producer[found.producer_id] = found
            return OK, found.producer_id, found.epoch
        if found.state is State.ENDING:
            return ErrorCode.concurrent_transactions, -1, -1
        if found.state is State.ONGOING:
            found.epoch += 1
            self._end(found, is_commit=False)
            return ErrorCode.concurrent_transactions, -1, -1
        found.epoch += 1
        found.state = State.EMPTY
        return OK, found.producer_id, found.epoch

    def _known(self, name: str, producer_id: int, epoch: int) -> tuple[ErrorCode, Transaction | None]:
        found = self.by_name.get(name)
        if found is None or found.producer_id != producer_id:
            return ErrorCode.invalid_producer_id_mapping, None
        if epoch != found.epoch:
            return ErrorCode.producer_fenced, None
        if found.state is State.ENDING:
            return ErrorCode.concurrent_transactions, None
        return OK, found

    def add(
        self, name: str, producer_id: int, epoch: int, *, place: TopicPartition | None = None, group: str = ""
    ) -> ErrorCode:
        """Add a partition, or a group, to the transaction; begin one if there is none."""
        code, found = self._known(name, producer_id, epoch)
        if found is None:
            return code
        if found.state is not State.ONGOING:
            found.state = State.ONGOING
            found.partitions, found.groups = {}, {}
            found.count += 1
            count = found.count
            self._world.after(found.timeout_s, lambda: self._time_out(found, count))
        if place is not None:
            found.partitions[place] = None
        if group:
            found.groups[group] = None
        return OK

    def _time_out(self, found: Transaction, count: int) -> None:
        if found.count == count and found.state is State.ONGOING:
            found.epoch += 1
            self._end(found, is_commit=False)

    def takes(self, producer_id: int, epoch: int, place: TopicPartition) -> ErrorCode:
        """Return OK if a batch may be appended: its partition is in the transaction, or enters it by the batch."""
        found = self._by_producer.get(producer_id)
        if found is None:
            return ErrorCode.invalid_producer_id_mapping
        if epoch != found.epoch:
            return ErrorCode.invalid_producer_epoch
        if found.state is State.ONGOING and place in found.partitions:
            return OK
        if self._is_second:
            return self.add(found.name, producer_id, epoch, place=place)
        return ErrorCode.concurrent_transactions if found.state is State.ENDING else ErrorCode.invalid_txn_state

    def takes_offsets(self, name: str, producer_id: int, epoch: int, group: str) -> ErrorCode:
        """Return OK if offsets of a group may be committed in the transaction."""
        code, found = self._known(name, producer_id, epoch)
        if found is None:
            return ErrorCode.invalid_producer_epoch if code is ErrorCode.producer_fenced else code
        if self._is_second:
            return self.add(name, producer_id, epoch, group=group)
        is_in = found.state is State.ONGOING and group in found.groups
        return OK if is_in else ErrorCode.invalid_txn_state

    def end(self, name: str, producer_id: int, epoch: int, *, is_commit: bool) -> tuple[ErrorCode, int, int]:
        """Commit or abort; return the error, and in the second version the producer id and epoch of the next transaction."""
        found = self.by_name.get(name)
        if found is None or found.producer_id != producer_id:
            return ErrorCode.invalid_producer_id_mapping, -1, -1
        is_repeated = self._is_second and epoch == found.epoch - 1 and found.state in (State.ENDING, State.COMPLETE)
        if epoch != found.epoch and not is_repeated:
            return ErrorCode.producer_fenced, -1, -1
        same = found.is_commit == is_commit
        if found.state is State.ENDING:
            return (ErrorCode.concurrent_transactions if same else ErrorCode.invalid_txn_state), -1, -1
        if found.state is State.ONGOING:
            if self._is_second:
                found.epoch += 1
            self._end(found, is_commit=is_commit)
            return OK, found.producer_id, found.epoch
        if found.state is State.COMPLETE and (is_repeated or not self._is_second):
            return (OK if same else ErrorCode.invalid_txn_state), found.producer_id, found.epoch
        if self._is_second and not is_commit:
            found.epoch += 1
            return OK, found.producer_id, found.epoch
        return ErrorCode.invalid_txn_state, -1, -1

    def _end(self, found: Transaction, *, is_commit: bool) -> None:
        found.state, found.is_commit = State.ENDING, is_commit
        places, groups = tuple(found.partitions), tuple(found.groups)
        found.left = len(places) + len(groups)
        self._world.note(f"transaction {found.name} {found.producer_id}/{found.epoch} commit={is_commit} {places}")
        for place in places:
            self._world.after(self._world.dice.uniform(*MARKER_S), lambda place=place: self._mark(found, place))
        for group in groups:
            self._world.after(self._world.dice.uniform(*MARKER_S), lambda group=group: self._mark_group(found, group))
        if not found.left:
            found.state = State.COMPLETE

    def _mark(self, found: Transaction, place: TopicPartition) -> None:
        def done(is_written: bool) -> None:
            if is_written:
                self._marked(found)
            else:
                self._world.after(MARKER_AGAIN_S, lambda: self._mark(found, place))

        self._write_marker(place, found.producer_id, found.epoch, found.is_commit, done)

    def _mark_group(self, found: Transaction, group: str) -> None:
        self._end_offsets(group, found.producer_id, found.is_commit)
        self._marked(found)

    @staticmethod
    def _marked(found: Transaction) -> None:
        found.left -= 1
        if not found.left:
            found.state = State.COMPLETE
