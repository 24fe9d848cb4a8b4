"""Define what becomes of each setting that an import finds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Self


class State(Enum):
    """What becomes of a setting."""

    TRANSLATED = "translated"
    LEFT_OUT = "left out"
    BY_HAND = "needs a hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One setting that was found, and the line that is made of it."""

    found: str  # the key where it was found
    where: str
    state: State = State.TRANSLATED
    key: str = ""  # of the line; "" for none
    value: str = field(default="", repr=False)
    why: str = ""  # of another state than TRANSLATED

    @property
    def is_line(self) -> bool:
        """Tell whether a line is written for it."""
        return bool(self.key) and self.state is not State.LEFT_OUT

    def left_out(self, why: str) -> Self:
        """Return the same without a line."""
        return replace(self, state=State.LEFT_OUT, why=why)

    def by_hand(self, why: str) -> Self:
        """Return the same as something that a person has to look at, with the reasons so far."""
        reasons = dict.fromkeys(each for each in (self.why, why) if each)
        return replace(self, state=State.BY_HAND, why="; ".join(reasons))
