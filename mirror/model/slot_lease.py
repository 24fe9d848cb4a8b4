"""Define leases: which window may write in a slot. Leases are group offsets with metadata. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from mirror.model.slot_ownership import SlotLayout

GRACE_S = 5.0  # how long a window continues past its end without a ready successor, and waits for responses
DEAD_AFTER_S = 2 * GRACE_S + 3.0  # after a window's end: from then on, a lease that was never released counts as dead

_UNCLEAN = "unclean"
_IN_DOUBT = "in-doubt"
_SPARE = "spare-"
_DECIDES = "decides-"
_TRANSACTIONAL = "transactional"
_LAYOUT = "layout-"


class WindowOutcome(NamedTuple):
    """How a window ended, for the next window of the slot. The default is a clean end.

    Attributes:
        is_unclean: Something failed, or a process died: the target may be ahead of the positions.
        in_doubt: Some positions may belong to other topics with the same names.
        spare: Number of the slot's spare transactional id, 0 for none.
        decided_at_ms: Until then (epoch ms) a cluster may not know the outcome of the last transaction; 0 if it is known.
        is_transactional: The window wrote in transactions, with the slot's transactional id or the spare one.
    """

    is_unclean: bool = False
    in_doubt: bool = False
    spare: int = 0
    decided_at_ms: int = 0
    is_transactional: bool = False


class LeaseState(NamedTuple):
    """The lease of a slot in one lane: window `window` of run `run_id` holds it, or has released it.

    The lease is stored as an offset of the flow's group: 2 * window, plus 1 when released. The metadata have the run, the outcome
    and the layout of the run.
    """

    window: int
    run_id: int
    is_released: bool
    outcome: WindowOutcome = WindowOutcome()
    layout: SlotLayout | None = None  # None if an earlier version wrote it

    def encode(self) -> tuple[int, str]:
        """Return the lease as offset and metadata. The outcome is included only if the window has ended."""
        spare, decided_at_ms = self.outcome.spare, self.outcome.decided_at_ms
        marks = {
            _UNCLEAN: self.is_released and self.outcome.is_unclean,
            _IN_DOUBT: self.is_released and self.outcome.in_doubt,
            f"{_SPARE}{spare}": spare > 0,
            f"{_DECIDES}{decided_at_ms}": decided_at_ms > 0,
            _TRANSACTIONAL: self.outcome.is_transactional,
            f"{_LAYOUT}{self.layout.text() if self.layout else ''}": self.layout is not None,
        }
        metadata = " ".join([str(self.run_id), *(mark for mark, is_set in marks.items() if is_set)])
        return 2 * self.window + self.is_released, metadata

    @classmethod
    def parse(cls, at: tuple[int, str]) -> LeaseState:
        """Parse `encode()`; the run is 0 if the metadata name none."""
        offset, metadata = at
        run_id, _, rest = metadata.partition(" ")
        marks = rest.split()
        outcome = WindowOutcome(
            is_unclean=_UNCLEAN in marks,
            in_doubt=_IN_DOUBT in marks,
            spare=_number(_SPARE, marks),
            decided_at_ms=_number(_DECIDES, marks),
            is_transactional=_TRANSACTIONAL in marks,
        )
        layout = next((mark.removeprefix(_LAYOUT) for mark in marks if mark.startswith(_LAYOUT)), "")
        return cls(offset // 2, int(run_id or 0), bool(offset % 2), outcome, SlotLayout.parse(layout))

    def began_ms(self, window_ms: int) -> int:
        """Return when the window began, epoch ms.

        `window_ms`: length of windows, used if the lease does not name its layout.
        """
        return self.window * self._window_ms(window_ms)

    def dead_ms(self, window_ms: int) -> float:
        """Return when the window has ended for certain, or counts as dead; epoch ms."""
        return (self.window + 1) * self._window_ms(window_ms) + DEAD_AFTER_S * 1000

    def _window_ms(self, window_ms: int) -> int:
        return self.layout.window_ms if self.layout is not None else window_ms


def _number(mark: str, marks: Collection[str]) -> int:
    return next((int(one.removeprefix(mark)) for one in marks if one.startswith(mark)), 0)


def lane_takes_s(lanes: int, window_ms: int) -> float:
    """Return the longest time between two windows of a lane: lanes alternate, and a window may end late."""
    return lanes * window_ms / 1000 + DEAD_AFTER_S


class Predecessor(NamedTuple):
    """What preceded a window: the outcome of the windows before it, and whether one of them is missing.

    `has_gap`: positions may be older than they should be. In a test, a killed broker came back with group offsets that were
    minutes old.
    """

    outcome: WindowOutcome = WindowOutcome()
    has_gap: bool = False


def predecessor_of(
    window: int, leases: Collection[LeaseState], *, run_id: int, others: Collection[LeaseState] = ()
) -> Predecessor:
    """Return the predecessor of a window that acquires its slot.

    | leases of the lanes | predecessor |
    |---|---|
    | none | has a gap |
    | window - 1 of the same run, released | has its outcome |
    | window - 1 of another run, released | has its outcome, and a gap |
    | one that is not released: its process died | is unclean |
    | older ones, released | has their outcomes, and a gap |

    Args:
        window: The number of the window that starts.
        run_id: The run of the window. A new run cannot detect what happened to the broker since the last window, so its
            predecessor always has a gap.
        leases: The leases of the slot's lanes, as far as they were ever held.
        others: The leases of all slots of another layout that ran later than the slot's own lanes. Any of them may have had the
            slot's partitions.
    """
    newest = max(leases, key=lambda lease: (lease.began_ms(0), lease[:3]), default=None)
    before = (*leases, *others)
    outcome = WindowOutcome(
        is_unclean=any(not lease.is_released or lease.outcome.is_unclean for lease in before),
        in_doubt=any(lease.outcome.in_doubt for lease in before),
        spare=newest.outcome.spare if newest is not None else 0,
        decided_at_ms=newest.outcome.decided_at_ms if newest is not None else 0,
        is_transactional=any(lease.outcome.is_transactional for lease in before),
    )
    return Predecessor(outcome, has_gap=(window - 1, run_id) not in {lease[:2] for lease in leases})
