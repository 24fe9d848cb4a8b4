"""Define the group offsets, with their metadata, that name the owner of each slot. Pure."""

from __future__ import annotations

from typing import NamedTuple

COMMIT_S = 1.0  # how often a window commits positions, and checks whether its process still owns the slot
_KEYS_OF_A_FLOW = 2  # the stopped runs, and the layout of the working processes
_KEYS_OF_A_SLOT = 4  # owner, ready, and the leases of up to two lanes


class SlotLayout(NamedTuple):
    """How partitions are divided into slots, and time into windows: the same for all processes of a flow."""

    slots: int
    tasks_max: int
    window_ms: int
    lanes: int

    def text(self) -> str:
        """Return the layout as text, for the name of a group and for metadata."""
        return "-".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> SlotLayout | None:
        """Parse `text()`; return None for an empty text."""
        return cls(*map(int, text.split("-"))) if text else None


class Owner(NamedTuple):
    """The run that owns a slot (0: none), its times (epoch ms), and its settings digest.

    `since_ms`: when the run took the slot. `renewed_ms`: when it last confirmed that. `settings`: version and settings
    digest.
    """

    run_id: int
    since_ms: int = 0
    renewed_ms: int = 0
    settings: str = ""

    def encode(self) -> tuple[int, str]:
        """Return the owner as offset and metadata."""
        return self.run_id, f"{self.since_ms} {self.renewed_ms} {self.settings}"

    @classmethod
    def parse(cls, at: tuple[int, str]) -> Owner:
        """Parse `encode()`; malformed metadata yields only the run."""
        since, _, rest = at[1].partition(" ")
        renewed, _, settings = rest.partition(" ")
        return cls(at[0], int(since), int(renewed), settings) if since.isdigit() and renewed.isdigit() else cls(at[0])


def versioned(version: str, digest: str) -> str:
    """Return version and settings digest as an owner commits them. Version 0.1 committed the digest alone."""
    return f"{version}/{digest}"


def version_of(settings: str) -> str:
    """Return the version that `versioned` put before a digest."""
    version, slash, _ = settings.partition("/")
    return version if slash else "0.1"


_STOPS_KEPT = 8


def is_stopped(run_id: int, stops: tuple[int, str] | None) -> bool:
    """Return whether a run must stop; `stops` is the offset and metadata committed at `stop_key`."""
    return stops is not None and str(run_id) in stops[1].split()


def with_stop(run_id: int, stops: tuple[int, str] | None) -> tuple[int, str]:
    """Return the metadata to commit at `stop_key` so that this run stops too.

    Several processes may stop at the same time.
    """
    return 0, " ".join([*(stops[1].split() if stops is not None else ()), str(run_id)][-_STOPS_KEPT:])


def stop_key() -> int:
    """Return the partition of the lease topic whose metadata are the ids of stopped runs."""
    return 0


def layout_key() -> int:
    """Return the partition of the lease topic whose metadata is the working processes' `SlotLayout`."""
    return 1


def owner_key(slot: int) -> int:
    """Return the partition of the lease topic whose offset and metadata are a slot's `Owner`."""
    return _KEYS_OF_A_FLOW + _KEYS_OF_A_SLOT * slot


def ready_key(slot: int) -> int:
    """Return the partition of the lease topic on which a slot's successor announces its readiness."""
    return owner_key(slot) + 1


def lease_key(slot: int, lane: int) -> int:
    """Return the partition of the lease topic for a slot and lane.

    No lane writes the partition of another lane.
    """
    return owner_key(slot) + 2 + lane


def is_lease_key(key: int) -> bool:
    """Return whether a partition of the lease topic is a result of `lease_key`."""
    return key >= _KEYS_OF_A_FLOW and (key - _KEYS_OF_A_FLOW) % _KEYS_OF_A_SLOT >= 2


def slot_of_lease_key(key: int) -> int:
    """Return the slot of a partition that `lease_key` returned."""
    return (key - _KEYS_OF_A_FLOW) // _KEYS_OF_A_SLOT


def lease_topic_partitions(slots: int) -> int:
    """Return how many partitions the lease topic needs."""
    return _KEYS_OF_A_FLOW + _KEYS_OF_A_SLOT * slots
