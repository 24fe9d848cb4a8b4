"""`kafka-mirror verify`: read both clusters and compare, record by record along the offset map, as a Spark job."""

from __future__ import annotations

import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Mapping

from mirror.chosen import flow_named
from mirror.columns import aligned
from mirror.config.settings import Settings
from mirror.replication.plan import Key
from mirror.signals import obey
from mirror.verification.compare import Comparer, scope_of
from mirror.verification.pieces import Finding, Scope
from mirror.verification.watch import watch

COLUMNS = ("topic", "partition", "compared", "different", "missing", "gone", "digest", "verdict")
DIFFERENT = 1


def verify(settings: Settings, asked: Namespace) -> int:
    """Compare what `asked` (the command line) names; print a table; return 0 when all is equal, else 1.

    Raises:
        SettingsError: the flow is unknown, or it replicates no such topic.
        ClusterUnavailable: a cluster did not answer.
    """
    flow = flow_named(settings, asked.flow, command="verify")
    if asked.every is not None:
        stop = threading.Event()
        obey({signal.SIGTERM: stop.set, signal.SIGINT: stop.set})
        return watch(settings, flow, asked, stop)
    plan, scope = scope_of(flow, asked)
    pieces = list(scope.pieces())
    records = sum(piece.records for piece in pieces)
    print(f"comparing {records:,} records of {len(scope.partitions)} topic-partitions ...", file=sys.stderr, flush=True)
    found: dict[Key, Finding] = {}
    if pieces:
        with Comparer(settings) as comparer:
            found = comparer.compare(plan, pieces)
    print(_text(scope, found), end="")
    for assigned in scope.unmapped:
        print(
            f"{assigned.topic}-{assigned.partition}: nothing is known of where its records went, so nothing was compared"
        )
    for finding in found.values():
        for line in filter(None, (finding.first, finding.failure)):
            print(line)
    return 0 if all(finding.is_equal for finding in found.values()) else DIFFERENT


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
