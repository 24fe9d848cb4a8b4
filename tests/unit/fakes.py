"""Clusters in memory, as the driver's classes show them; attributes are what a test sets, or looks at."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from metrics.headroom import Retention
from mirror.errors import ClusterUnavailable
from mirror.kafka.client import Purpose
from mirror.kafka.cluster import Topic
from mirror.kafka.messages import Request
from mirror.policy.topic_configs import TopicSetting
from tests import wire

Offset = int | Mapping[tuple[str, int], int] | None  # of each partition, by partition, or of none
OWN = TopicSetting(value="compact", is_own=True, is_default=False, is_static=False)
DEFAULT = TopicSetting(value="7", is_own=False, is_default=True, is_static=False)


def topics(**partitions: int) -> dict[str, Topic]:
    """Return topics with ids by name."""
    return {name: Topic(name=name, topic_id=f"id of {name}", partitions=count) for name, count in partitions.items()}


def named(*names: str) -> dict[str, Topic]:
    """Return topics of one partition by name."""
    return topics(**dict.fromkeys(names, 1))


class FakeCluster:
    """Stands in for mirror.kafka.cluster.Cluster.

    Attributes:
        looks: What `topics` returns, one call after the other; the last one again and again.
        hides: Topics that this client may not describe.
        refuses: Topics and settings that `create` objects to.
        done: What was created, and grown.
        start, end, position: Offsets of logs, and those that the flow's group has committed.
        commits: What `publish` was called with; the last one is in `held`, unless it is refused or lost.
        is_up: Whether the cluster responds.
    """

    def __init__(
        self,
        alias: str,
        *looks: dict[str, Topic],
        hides: Iterable[str] = (),
        refuses: Iterable[str] = (),
        start: Offset = 0,
        end: Offset = 0,
        position: Offset = None,
        is_up: bool = True,
    ) -> None:
        self.alias = alias
        self.looks = list(looks)
        self.hides, self.refuses = set(hides), set(refuses)
        self.done: list[tuple[Any, ...]] = []
        self.start, self.end, self.position = start, end, position
        self.commits: list[Mapping[tuple[str, int], int]] = []
        self.held: Mapping[tuple[str, int], int] = {}
        self.may_commit, self.loses_commits = True, False
        self.keeps = Retention()
        self.is_up = is_up

    def _respond(self) -> None:
        if not self.is_up:
            raise ClusterUnavailable(f"cluster {self.alias}: no answer", cluster=self.alias)

    def close(self) -> None:
        pass

    # --- topics -------------------------------------------------------------------------------------------------

    def topics(self) -> dict[str, Topic]:
        self._respond()
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def hidden(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self.hides]

    def described(self, names: Iterable[str]) -> dict[str, Topic]:
        return {}

    def create(
        self,
        topic: str,
        *,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
        validates_only: bool = False,
    ) -> str:
        if topic in self.refuses:
            return "TOPIC_AUTHORIZATION_FAILED: no."
        if refused := self.refuses & configs.keys():
            return f"INVALID_CONFIG: no {refused.pop()}."
        if not validates_only:
            self.done.append((topic, partitions, replication_factor, dict(configs)))
        return ""

    def grow(self, topic: str, *, partitions: int) -> str:
        self.done.append((topic, partitions))
        return ""

    def configs(self, names: Iterable[str]) -> dict[str, dict[str, TopicSetting]]:
        return {name: {"cleanup.policy": OWN, "retention.ms": DEFAULT} for name in names if name not in self.hides}

    def alter(self, topic: str, changes: object) -> str:
        return ""

    def retention(self, names: Iterable[str]) -> dict[str, Retention]:
        return dict.fromkeys(names, self.keeps)

    # --- logs and groups ----------------------------------------------------------------------------------------

    def _offsets(self, offset: Offset, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        self._respond()
        if offset is None:
            return {}
        if isinstance(offset, int):
            return dict.fromkeys(wanted, offset)
        return {place: offset[place] for place in wanted if place in offset}

    def start_offsets(self, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return self._offsets(self.start, wanted)

    def end_offsets(
        self, wanted: Iterable[tuple[str, int]], *, read_committed: bool = False
    ) -> dict[tuple[str, int], int]:
        assert not read_committed
        return self._offsets(self.end, wanted)

    def append(self, topic: str, records: object, **how: object) -> None:
        self._respond()

    def committed(self, group: str, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        assert group == "mirror.a->b"
        return self._offsets(self.position, wanted)

    def publish(self, group: str, offsets: Mapping[tuple[str, int], int]) -> str:
        assert group == "mirror.a->b"
        self.commits.append(offsets)
        if not self.loses_commits and self.may_commit:
            self.held = offsets
        return "" if self.may_commit else "Group authorization failed"

    def holds(self, group: str, offsets: Mapping[tuple[str, int], int]) -> bool:
        assert group == "mirror.a->b"
        return self.held == offsets


class FakeTimestamps:
    """Stands in for mirror.lag.first_unreplicated.FirstUnreplicated.

    `ago_s`: how long ago the records were written; None: they cannot be read. `at_ms`: when they were, instead.
    """

    def __init__(self, ago_s: float | None = 60.0, *, at_ms: float | None = None) -> None:
        self.ago_s, self.at_ms = ago_s, at_ms

    def timestamps(self, lagging: Iterable[tuple[str, int]]) -> dict[tuple[str, int], float]:
        if self.at_ms is not None:
            return dict.fromkeys(lagging, self.at_ms)
        return {} if self.ago_s is None else dict.fromkeys(lagging, (time.time() - self.ago_s) * 1000)

    def close(self) -> None:
        pass


class FakeGroupOffsets:
    """Stands in for mirror.kafka.group_offsets.GroupOffsets: `kept` has (offset, metadata) of the only group.

    `arrives`: a commit waits for it.
    """

    def __init__(self, group: str, kept: Mapping[tuple[str, int], tuple[int, str]] | None = None) -> None:
        self.group = group
        self.kept = dict(kept or {})
        self.arrives = asyncio.Event()
        self.arrives.set()

    async def commit(self, group: str, offsets: Mapping[tuple[str, int], tuple[int, str]]) -> None:
        assert group == self.group
        await self.arrives.wait()
        self.kept |= offsets

    async def committed(
        self, group: str, wanted: Iterable[tuple[str, int]] | None = None
    ) -> dict[tuple[str, int], tuple[int, str]]:
        assert group == self.group
        return {place: self.kept[place] for place in (self.kept if wanted is None else wanted) if place in self.kept}


class FakeClient:
    """Stands in for mirror.kafka.client.Client, of one broker.

    A subclass answers requests, and may hold them back before they are sent.
    """

    async def held_back(self) -> None:
        """Wait as long as a request is held back."""

    async def answered(self, message: Any) -> Any:
        """Return the answer to a request."""
        raise NotImplementedError

    def refresh_soon(self) -> None:
        """Do nothing: the metadata is always new."""

    async def ask(
        self,
        node: int,
        request: Request,
        purpose: Purpose = Purpose.DATA,
        *,
        within_s: float | None = None,
        on_sent: Callable[[], None] = lambda: None,
    ) -> Any:
        """Send a request, and return its answer."""
        await self.held_back()
        on_sent()
        return await self.answered(wire.message_of(request))
