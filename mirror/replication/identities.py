"""Ask the clusters which topics a flow's are by now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from mirror.replication.partition import Partition
from mirror.replication.placing import identified
from mirror.replication.plan import FlowPlan
from mirror.replication.recreated import TopicIds
from mirror.replication.reports import ABSENT, HIDDEN

if TYPE_CHECKING:
    from mirror.admin import Topic


WITHIN_S = 3.0


class Identities:
    """Asks with clients of its own, which live for the question alone: aiokafka knows nothing of topic ids."""

    def __init__(self, plan: FlowPlan) -> None:
        self._plan = plan

    async def identify(self, partitions: Iterable[Partition]) -> dict[Partition, str]:
        """End the doubt about each topic-partition whose topics are there; return why the others stay in doubt.

        Raises:
            ClusterUnavailable: a cluster does not tell.
        """
        doubted = list(partitions)
        now = await asyncio.to_thread(self._now, doubted)  # a client takes its time to open and to close
        unclear = {}
        for partition, ids in zip(doubted, now, strict=True):
            if not ids.source:
                unclear[partition] = HIDDEN
            elif not ids.target and TopicIds.parse(partition.ids).target:
                unclear[partition] = f"{partition.assigned.remote_topic} {ABSENT}"
            else:
                identified(self._plan, partition, ids)
        return unclear

    def _now(self, partitions: list[Partition]) -> list[TopicIds]:
        plan = self._plan
        source = _described(plan.source, plan.consumer, {p.assigned.topic for p in partitions})
        target = _described(plan.target, plan.producer, {p.assigned.remote_topic for p in partitions})
        return [
            TopicIds(_id(source.get(p.assigned.topic)), _id(target.get(p.assigned.remote_topic))) for p in partitions
        ]


def _described(alias: str, client: Mapping[str, str], topics: Iterable[str]) -> dict[str, Topic]:
    from mirror.admin import Admin  # brings librdkafka, which a worker has no other use for

    with closing(Admin(alias, client)) as admin:
        return admin.described(topics, within_s=WITHIN_S)


def _id(topic: Topic | None) -> str:
    return topic.topic_id if topic is not None else ""
