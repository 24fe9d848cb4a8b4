"""`kafka-mirror verify`: read both clusters and compare, record by record along the offset map, as a Spark job."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mirror.admin import Admin
from mirror.checkpoints.map_reader import FlowMaps
from mirror.checkpoints.reads import answered
from mirror.chosen import chosen, flow_named
from mirror.columns import aligned
from mirror.config.clients import aiokafka_options, fetch_options
from mirror.config.settings import Flow, Settings
from mirror.local.jars import cache_folder, java
from mirror.replication.batches import CorruptBatch
from mirror.replication.class_archive import ClassArchive
from mirror.replication.log_reader import TooMuchError, read_batches
from mirror.replication.plan import FlowPlan, Key
from mirror.replication.stream import close, session
from mirror.replication.wire import KafkaError, Source
from mirror.topics import present_plan
from mirror.verification.pieces import Finding, Piece, Scope, compared

COLUMNS = ("topic", "partition", "compared", "different", "missing", "gone", "digest", "verdict")
DIFFERENT = 1
PIECES_PER_TASK = 4


def verify(settings: Settings, asked: Namespace) -> int:
    """Compare what `asked` (the command line) names; print a table; return 0 when all is equal, else 1.

    Raises:
        SettingsError: the flow is unknown, or it replicates no such topic.
        ClusterUnavailable: a cluster did not answer.
    """
    flow = flow_named(settings, asked.flow, command="verify")
    source, target = Admin(flow.source.alias, flow.source_admin), Admin(flow.target.alias, flow.target_admin)
    plan = present_plan(flow, source, target)
    scope = _scope(flow, plan, source, target, asked)
    pieces = list(scope.pieces())
    records = sum(piece.records for piece in pieces)
    print(f"comparing {records:,} records of {len(scope.partitions)} topic-partitions ...", file=sys.stderr, flush=True)
    found = _on_spark(settings, plan, pieces)
    print(_text(scope, found), end="")
    for assigned in scope.unmapped:
        print(
            f"{assigned.topic}-{assigned.partition}: nothing is known of where its records went, so nothing was compared"
        )
    for finding in found.values():
        for line in filter(None, (finding.first, finding.failure)):
            print(line)
    return 0 if all(finding.is_equal for finding in found.values()) else DIFFERENT


def _scope(flow: Flow, plan: FlowPlan, source: Admin, target: Admin, asked: Namespace) -> Scope:
    mapped = (p for p in plan.partitions if not p.spread_over)
    places = tuple(chosen(mapped, asked.topic, flow=flow.name, command="verify"))
    maps = FlowMaps(plan)
    answered(
        maps.refresh(flow.target_admin), cluster=flow.target.alias, what=f"the offset map of {flow.name} cannot be read"
    )
    return Scope(
        places,
        maps.maps,
        source.start_offsets([(p.topic, p.partition) for p in places]),
        target.start_offsets([(p.remote_topic, p.partition) for p in places]),
        asked.last,
        frozenset(
            topic
            for topic, config in target.configs({p.remote_topic for p in places}).items()
            if "compact" in str(config["cleanup.policy"].value)
        ),
    )


def _on_spark(settings: Settings, plan: FlowPlan, pieces: Sequence[Piece]) -> dict[Key, Finding]:
    """Return a finding per topic-partition."""
    found: dict[Key, Finding] = defaultdict(Finding)
    if not pieces:
        return found
    archive = ClassArchive(cache_folder(), java())
    spark = session(settings.mirror.spark, archive, tasks=settings.mirror.slots)
    try:
        tasks = min(len(pieces), max(settings.mirror.slots, len(pieces) // PIECES_PER_TASK))
        clients = (dict(plan.consumer), dict(plan.producer))
        rows = spark.sparkContext.parallelize(list(pieces), tasks).mapPartitions(_Check(*clients)).collect()
    finally:
        close(spark, archive)
    for piece, finding in sorted(rows, key=lambda row: row[0]):
        found[piece.topic, piece.partition].add(finding)
    return found


class _Check:
    """What a task does with its pieces. Clients are Java properties."""

    def __init__(self, source: Mapping[str, str], target: Mapping[str, str]) -> None:
        self._source = source
        self._target = target

    def __call__(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, Finding]]:
        return iter(asyncio.run(self._all(list(pieces))))

    async def _all(self, pieces: list[Piece]) -> list[tuple[Piece, Finding]]:
        source, target = Source(aiokafka_options(self._source)), Source(aiokafka_options(self._target))
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
        theirs = await read_batches(source, (piece.topic, piece.partition), piece.source, piece.records, isolation)
        ours = await read_batches(target, (piece.remote_topic, piece.partition), piece.target, piece.records, 1)
    except (KafkaError, OSError, TimeoutError, TooMuchError, CorruptBatch) as error:
        return Finding(failure=f"{piece.topic}-{piece.partition} from offset {piece.source} on: {error or repr(error)}")
    return compared(piece, theirs, ours)


def _text(scope: Scope, found: Mapping[Key, Finding]) -> str:
    rows: list[tuple[str, ...]] = [COLUMNS]
    for p in scope.partitions:
        one = found.get((p.topic, p.partition))
        if one is None:
            rows.append((p.topic, str(p.partition), *("-" * 5), "unknown"))
            continue
        verdict = "equal" if one.is_equal else "not read" if one.failure else "DIFFERENT"
        counts = (one.compared, one.different, one.missing, one.gone)
        rows.append((p.topic, str(p.partition), *map(str, counts), one.digest, verdict))
    return aligned(rows, right=range(1, 6))
