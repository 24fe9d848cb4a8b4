"""Who serves which slot: the keys and the metadata of the group offsets that say so. Pure."""

from __future__ import annotations

from typing import NamedTuple

COMMIT_S = 1.0  # how often a runner commits positions, and looks whether the slot is still its process'
GRACE_S = 5.0  # how long a runner goes on past its window while no successor is ready, and may drain
DEAD_AFTER_S = 2 * GRACE_S + 3.0  # behind the window, for a runner that never released its turn
_KEYS_OF_A_FLOW = 2  # the runs that shall stop, the layout of those that work
_KEYS_OF_A_SLOT = 4  # owner, ready, and the turns of up to two lanes


class Baton(NamedTuple):
    """Who may write in a slot of a flow: window `window` holds the turn, or has given it away.

    Kept as one offset of the flow's group: 2 * window, plus 1 when released.
    """

    window: int
    is_released: bool

    def encode(self) -> int:
        """Return the offset that says this."""
        return 2 * self.window + self.is_released

    def dead_ms(self, window_ms: int) -> float:
        """Return when the writer of this has ended its window, or counts as dead; epoch ms."""
        return (self.window + 1) * window_ms + DEAD_AFTER_S * 1000

    @classmethod
    def decode(cls, offset: int) -> Baton:
        """Read the offset back."""
        return cls(offset // 2, bool(offset % 2))


UNCLEAN = "unclean"  # of a turn that was given back for a runner that died, or by one for whom something failed
IN_DOUBT = "in-doubt"  # of one that was given back before it was known which topics all positions are of
_SPARE = "spare-"  # of the turn of a slot that writes by a spare transactional id: its number
_DECIDES = "decides-"  # of one whose last transaction is better not aborted before: epoch ms


def turn_of(
    run_id: int, *, is_unclean: bool = False, in_doubt: bool = False, spare: int = 0, decides_ms: int = 0
) -> str:
    """Return the metadata of a turn."""
    marks = {
        UNCLEAN: is_unclean,
        IN_DOUBT: in_doubt,
        f"{_SPARE}{spare}": spare > 0,
        f"{_DECIDES}{decides_ms}": decides_ms > 0,
    }
    return " ".join([str(run_id), *(mark for mark, is_so in marks.items() if is_so)])


def spare_of(metadata: str) -> int:
    """Return the number of the spare transactional id that a turn's slot writes by, 0 for none."""
    return _number_of(_SPARE, metadata)


def decides_ms_of(metadata: str) -> int:
    """Return until when a cluster may not know what became of a turn's last transaction, epoch ms, 0 for none."""
    return _number_of(_DECIDES, metadata)


def _number_of(mark: str, metadata: str) -> int:
    return next((int(one.removeprefix(mark)) for one in metadata.split()[1:] if one.startswith(mark)), 0)


def run_of(metadata: str) -> int:
    """Return the run that wrote a turn, 0 where none is named."""
    return int(metadata.partition(" ")[0] or 0)


class Layout(NamedTuple):
    """How a flow's topic-partitions are dealt out, and when turns pass: the same for all processes that share it."""

    slots: int
    tasks_max: int
    window_ms: int
    lanes: int

    def text(self) -> str:
        """Return it for the name of a group and for metadata."""
        return "-".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> Layout | None:
        """Read `text()` back; None where nothing was written."""
        return cls(*map(int, text.split("-"))) if text else None


class Owner(NamedTuple):
    """Which run is to serve a slot (0: none), since when and when it last said so (epoch ms), a digest of its flow's settings."""

    run_id: int
    since_ms: int = 0
    said_ms: int = 0
    settings: str = ""

    def encode(self) -> tuple[int, str]:
        """Return it as offset and metadata."""
        return self.run_id, f"{self.since_ms} {self.said_ms} {self.settings}"

    @classmethod
    def parse(cls, at: tuple[int, str]) -> Owner:
        """Read `encode()` back; what is none says nothing but the run."""
        since, _, rest = at[1].partition(" ")
        said, _, settings = rest.partition(" ")
        return cls(at[0], int(since), int(said), settings) if since.isdigit() and said.isdigit() else cls(at[0])


_STOPS_KEPT = 8


def is_stopped(run_id: int, stops: tuple[int, str] | None) -> bool:
    """Tell whether a run is among those that shall stop; `stops` is what was committed at `stop_key`."""
    return stops is not None and str(run_id) in stops[1].split()


def with_stop(run_id: int, stops: tuple[int, str] | None) -> tuple[int, str]:
    """Return what to commit at `stop_key` so that this run stops too; processes may stop at the same time."""
    return 0, " ".join([*(stops[1].split() if stops is not None else ()), str(run_id)][-_STOPS_KEPT:])


def stop_key() -> int:
    """Baton-topic partition whose metadata are the ids of runs that shall stop."""
    return 0


def layout_key() -> int:
    """Baton-topic partition whose metadata is the `Layout` of the processes that work."""
    return 1


def owner_key(slot: int) -> int:
    """Baton-topic partition whose offset is the run that is to serve a slot, 0 for none; metadata: of which settings."""
    return _KEYS_OF_A_FLOW + _KEYS_OF_A_SLOT * slot


def ready_key(slot: int) -> int:
    """Baton-topic partition on which a slot's successor says that it is warm."""
    return owner_key(slot) + 1


def turn_key(slot: int, lane: int) -> int:
    """Baton-topic partition on which a lane says whether it holds a slot's turn; no lane writes another's."""
    return owner_key(slot) + 2 + lane


def is_turn_key(key: int) -> bool:
    """Tell whether a baton-topic partition is one of `turn_key`."""
    return key >= _KEYS_OF_A_FLOW and (key - _KEYS_OF_A_FLOW) % _KEYS_OF_A_SLOT >= 2


def baton_partitions(slots: int) -> int:
    """Partitions the baton topic needs."""
    return _KEYS_OF_A_FLOW + _KEYS_OF_A_SLOT * slots


def slots_of_batons(partitions: int) -> int:
    """Return the most slots that a baton topic of so many partitions was made for."""
    return (partitions - _KEYS_OF_A_FLOW) // _KEYS_OF_A_SLOT
