"""Track the fetch session of a broker: an incremental fetch names only changes (KIP-227). Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from operator import attrgetter
from typing import NamedTuple

from mirror.model.topic_partition import TopicPartition

_FULL = 0  # the epoch of a request that names everything, and asks for a session
_LAST_EPOCH = (1 << 31) - 1
_NO_ID = 0
NO_SESSION = -1  # epoch of a request outside of any session


class FetchPosition(NamedTuple):
    """Where to fetch a partition from.

    Attributes:
        offset: The first wanted offset.
        max_bytes: Limit of its part of a response.
        topic_id: The topic's id; a broker refuses to read another topic of the same name. None: any topic of that name.
        last_epoch: Leader epoch of the record before `offset`, -1 if unknown. With it a broker reports a diverging log.
    """

    offset: int
    max_bytes: int
    topic_id: uuid.UUID | None = None
    last_epoch: int = -1


_topic_id_of = attrgetter("topic_id")


class Delta(NamedTuple):
    """What one request names.

    Attributes:
        session_id: 0 for a new session.
        epoch: Counts the requests of a session; 0: this request names everything.
        wanted: Positions that the broker does not know yet.
        forgotten: Partitions that are no longer wanted.
        replaced: Earlier topics with the name of a wanted one: forgotten if ids distinguish them.
        has_ids: All topics can be named by their ids.
    """

    session_id: int
    epoch: int
    wanted: Mapping[TopicPartition, FetchPosition]
    forgotten: Mapping[TopicPartition, FetchPosition]
    replaced: Mapping[TopicPartition, FetchPosition]
    has_ids: bool


class FetchSession:
    """The session with one broker, over one connection.

    A: After a response, the broker's session holds exactly what the last request wanted.
    B: After an error, or a request without a response, the next request names everything.

    Attributes:
        names: Topics by id, of all that the session has named.
    """

    def __init__(self) -> None:
        self._id = _NO_ID
        self._epoch = _FULL
        self._has_ids = False  # all topics are named by their ids
        self._held: dict[TopicPartition, FetchPosition] = {}
        self._asked: dict[TopicPartition, FetchPosition] = {}
        self.names: dict[uuid.UUID | None, str] = {}

    def next(self, wanted: Mapping[TopicPartition, FetchPosition]) -> Delta:
        """Return the partitions that the next request must name to fetch all of `wanted`."""
        has_ids = all(map(_topic_id_of, wanted.values()))
        if has_ids != self._has_ids:
            self.reset()  # names and ids do not mix in a session
        self._asked, self._has_ids = dict(wanted), has_ids
        held = self._held
        changed = {key: at for key, at in wanted.items() if held.get(key) != at} if held else wanted
        self.names |= {at.topic_id: topic for (topic, _), at in changed.items()}
        if self._epoch == _FULL:
            return Delta(self._id, _FULL, wanted, {}, {}, has_ids)
        forgotten = {key: held[key] for key in held.keys() - wanted.keys()}
        replaced = {key: held[key] for key, at in changed.items() if key in held and held[key].topic_id != at.topic_id}
        return Delta(self._id, self._epoch, changed, forgotten, replaced, has_ids)

    def answered(self, session_id: int) -> None:
        """Record a successful response."""
        self._held = self._asked
        self._id = session_id
        if session_id == _NO_ID:
            self._epoch = _FULL  # the broker has no room for more sessions
        else:
            self._epoch = 1 if self._epoch in (_FULL, _LAST_EPOCH) else self._epoch + 1

    def reset(self) -> None:
        """Name everything next time; the broker closes the session that there may be."""
        self._epoch = _FULL
        self._held = {}
        self.names = {}

    def lost(self) -> None:
        """Begin again: the broker knows no such session."""
        self.reset()
        self._id = _NO_ID
