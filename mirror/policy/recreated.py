"""Recognize topics that were deleted and created again, by the ids in positions. Pure."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple


class OnRecreated(StrEnum):
    """The policy for a partition whose topic was replaced on either cluster."""

    RESTART = "restart"  # replicate it from its start: append to the records on the target, or fill an empty topic
    STOP = "stop"  # pause it until an operator sets its position
    CONTINUE = "continue"  # resume at its position, or at the log end if the log ends earlier


class TopicIds(NamedTuple):
    """Ids of a topic on both clusters, "" if unknown."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}:{self.target}" if self.target else self.source

    @classmethod
    @lru_cache(maxsize=1 << 14)
    def parse(cls, text: str) -> TopicIds:
        """Parse the result of str()."""
        source, _, target = text.partition(":")  # no id contains a colon: they are base64
        return cls(source, target)

    def other_than(self, now: TopicIds) -> str:
        """Return the side on which the topic was replaced: "source", "target", or "" if neither.

        An unknown id counts as unchanged.
        """
        for side, known, found in zip(("source", "target"), self, now, strict=True):
            if known and found and known != found:
                return side
        return ""

    def updated(self, now: TopicIds) -> TopicIds:
        """Return the ids of `now`, or the earlier ones if unknown."""
        return TopicIds(now.source or self.source, now.target or self.target)
