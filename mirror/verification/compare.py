"""Compare pieces of a flow in Spark jobs, for `kafka-mirror verify`."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from mirror.config.clients import client_options, fetch_options
from mirror.config.settings import Flow, Settings
from mirror.flows.offset_maps import FlowMaps
from mirror.flows.selection import selected
from mirror.flows.topics import present_plan
from mirror.kafka.cluster import Cluster
from mirror.kafka.errors import KafkaError
from mirror.kafka.fetcher import Source
from mirror.kafka.internal_topics import answered
from mirror.kafka.log_reader import TooMuchError, read_batches
from mirror.model.flow_plan import FlowPlan, PlannedPartition
from mirror.model.record_batches import CorruptBatch
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.logs import describe
from mirror.spark.session import Spark, class_archive
from mirror.verification.pieces import Finding, Piece, Scope, compared

PIECES_PER_TASK = 4


def scope_of(flow: Flow, args: Namespace) -> tuple[FlowPlan, Scope]:
    """Return the records to compare now, for the topics that the command line selects.

    Raises:
        SettingsError: the flow replicates no such topic.
        ClusterUnavailable: a cluster did not respond.
    """
    source, target = Cluster(flow.source.alias, flow.source_admin), Cluster(flow.target.alias, flow.target_admin)
    plan = present_plan(flow, source, target)
    mapped = (p for p in plan.partitions if p.keeps_partition)
    places = tuple(selected(mapped, args.topic, flow=flow.name, command="verify"))
    maps = FlowMaps(plan)
    answered(
        maps.refresh(flow.target_admin), cluster=flow.target.alias, what=f"the offset map of {flow.name} cannot be read"
    )
    return plan, scope_over(places, maps, source, target, last=args.last if args.every is None else None)


def scope_over(
    places: Sequence[PlannedPartition], maps: FlowMaps, source: Cluster, target: Cluster, *, last: int | None
) -> Scope:
    """Return the records of some partitions to compare now; raises ClusterUnavailable."""
    return Scope(
        tuple(places),
        maps.maps,
        source.start_offsets([p.on_source for p in places]),
        target.start_offsets([p.on_target for p in places]),
        last,
        frozenset(
            topic
            for topic, config in target.configs({p.remote_topic for p in places}).items()
            if "compact" in str(config["cleanup.policy"].value)
        ),
    )


class Comparer:
    """Compares with a Spark session; as a context manager, it ends the session."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._archive = class_archive()
        self._slots = settings.mirror.slots

    def __enter__(self) -> Self:
        self._spark = Spark.start(self._settings.mirror.spark, self._archive, tasks=self._slots)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spark.close()

    def compare(self, plan: FlowPlan, pieces: Sequence[Piece]) -> dict[TopicPartition, Finding]:
        """Return a finding per partition."""
        found: dict[TopicPartition, Finding] = defaultdict(Finding)
        if not pieces:
            return found
        tasks = min(len(pieces), max(self._slots, len(pieces) // PIECES_PER_TASK))
        clients = (plan.consumer, plan.producer)
        rows = (
            self._spark.session.sparkContext.parallelize(list(pieces), tasks).mapPartitions(_Check(*clients)).collect()
        )
        for piece, finding in sorted(rows, key=lambda row: row[0]):
            found[TopicPartition(piece.topic, piece.partition)].add(finding)
        return found


async def check_pieces(plan: FlowPlan, pieces: list[Piece]) -> dict[TopicPartition, Finding]:
    """Return a finding per partition without Spark: for few records, its start takes longest."""
    found: dict[TopicPartition, Finding] = defaultdict(Finding)
    for piece, finding in await _Check(plan.consumer, plan.producer).all(pieces):
        found[TopicPartition(piece.topic, piece.partition)].add(finding)
    return found


class _Check:
    """Compares the pieces of one task. `source` and `target` are Java properties of clients."""

    def __init__(self, source: Mapping[str, str], target: Mapping[str, str]) -> None:
        self._source = source
        self._target = target

    def __call__(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, Finding]]:
        return iter(asyncio.run(self.all(list(pieces))))

    async def all(self, pieces: list[Piece]) -> list[tuple[Piece, Finding]]:
        """Return each piece with its finding."""
        source, target = Source(client_options(self._source)), Source(client_options(self._target))
        isolation = fetch_options(self._source).isolation_level
        try:
            await source.open({piece.topic for piece in pieces})
            await target.open({piece.remote_topic for piece in pieces})
            return [(piece, await _checked(piece, source, target, isolation)) for piece in pieces]
        finally:
            await source.close()
            await target.close()


async def _checked(piece: Piece, source: Source, target: Source, isolation: int) -> Finding:
    try:
        theirs = await read_batches(
            source, TopicPartition(piece.topic, piece.partition), piece.source, piece.records, isolation
        )
        ours = await read_batches(
            target, TopicPartition(piece.remote_topic, piece.partition), piece.target, piece.records, 1
        )
    except (KafkaError, OSError, TimeoutError, TooMuchError, CorruptBatch) as error:
        return Finding(failure=f"{piece.topic}-{piece.partition} from offset {piece.source} on: {describe(error)}")
    return compared(piece, theirs, ours)
