"""Name one partition of one topic. Pure."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic of one cluster. Equal to the plain pair, so either can be a key."""

    topic: str
    partition: int
