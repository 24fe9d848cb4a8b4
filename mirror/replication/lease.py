"""How long a window may write on the strength of the last time it was seen that the slot, and the turn, are its own."""

from __future__ import annotations

import time

VALID_S = 4.0  # less than it takes others to take the slot over (mirror.replication.turn)


class Lease:
    """Valid for VALID_S after what was read when it was asked for; a process that was frozen meanwhile finds it invalid.

    By two clocks: the monotonic one may stand still while a machine sleeps, the other one may be set back.
    """

    def __init__(self) -> None:
        self._asked = (float("-inf"), float("-inf"))

    @staticmethod
    def now() -> tuple[float, float]:
        """Return the moment to hand to `confirm`: to be taken before the cluster is asked."""
        return time.monotonic(), time.time()

    def confirm(self, asked: tuple[float, float]) -> None:
        """Note that the slot and the turn were this window's at some moment behind `asked`."""
        self._asked = max(self._asked, asked)

    @property
    def is_valid(self) -> bool:
        """True while nobody else can have taken the slot over."""
        return all(0 <= now - asked < VALID_S for now, asked in zip(self.now(), self._asked, strict=True))
