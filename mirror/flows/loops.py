"""Find the topics of one flow that would form a loop, and log changes."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping

from mirror.config.settings import Flow
from mirror.errors import ClusterUnavailable
from mirror.flows.stored_positions import read_positions
from mirror.flows.upstream import Upstreams, going_round, read_upstreams
from mirror.kafka.cluster import Topic
from mirror.runtime.logs import first_few

log = logging.getLogger("mirror")

FIRST_S, LAST_S = 2.0, 30.0  # between checks: after one that finds new topics, and the maximum


class Loops:
    """The topics of a flow that form loops. If a cluster does not respond, the last result stays valid."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._upstreams: Upstreams | None = None  # the last result; None: not read yet
        self._poll_group: set[str] = set()  # ids of the topics of that result
        self._every_s = FIRST_S
        self._due_s = 0.0
        self._unknown = ""  # the reason for the last failure that was logged
        self.going_round: set[str] = set()  # topics of the source whose records came from the target

    @property
    def upstream(self) -> dict[str, tuple[str, ...]]:
        """Return, for each topic, the ids of the topics from which its records came."""
        return {topic: upstream.ids for topic, upstream in (self._upstreams or {}).items()}

    @property
    def is_due(self) -> bool:
        """True when the next check is due."""
        return time.monotonic() >= self._due_s

    def knows(self, topics: Mapping[str, Topic]) -> bool:
        """Return whether all of these topics were checked before."""
        return self._upstreams is not None and {topic.topic_id for topic in topics.values()} <= self._poll_group

    def look(self, topics: Mapping[str, Topic], *, remote: Mapping[str, str], on_target: Collection[str]) -> None:
        """Find the topics that would form a loop.

        Args:
            topics: Replicated topics of the source, by name.
            remote: Names of these topics on the target.
            on_target: Ids of all topics on the target.
        """
        before, target = self.going_round, frozenset(on_target)
        # A mirror that brings a new topic may not have written anything yet, so check again soon.
        self._every_s = min(2 * self._every_s, LAST_S) if self.knows(topics) else FIRST_S
        self._due_s = time.monotonic() + self._every_s
        try:
            found = read_upstreams(self._flow, topics)
            placed = self._placed(remote) if any(target & each.resting for each in found.values()) else set()
        except ClusterUnavailable as error:
            if self._unknown != str(error):
                log.warning("%s: topics cannot be checked for loops: %s", self._flow.name, error)
            self._unknown = str(error)
            return
        self.going_round = going_round(found, self._upstreams, on_target=target, so_far=before, placed=placed)
        self._upstreams, self._poll_group, self._unknown = found, {topic.topic_id for topic in topics.values()}, ""
        self._say(before)

    def _placed(self, remote: Mapping[str, str]) -> set[str]:
        """Return the source topics for which the flow has a position."""
        placed = {name for name, _ in read_positions(self._flow)}
        return {topic for topic, name in remote.items() if name in placed}

    def _say(self, before: set[str]) -> None:
        name, target = self._flow.name, self._flow.target.alias
        if found := sorted(self.going_round - before):
            log.error(
                "%s: not replicated, because another mirror has brought their records from %s, and they would go round in a "
                "loop: %s. To replicate them, stop that mirror and set their positions (kafka-mirror positions).",
                name,
                target,
                first_few(found),
            )
        if ended := sorted(before - self.going_round):
            log.info(
                "%s: replicated again, because no mirror copies them from %s any more: %s",
                name,
                target,
                first_few(ended),
            )
