"""Run `kafka-mirror verify`: compare both clusters record by record, as a Spark job."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import dataclass

from mirror.commands.options import add_flow, describe, positive, seconds
from mirror.config.given import add_mirror, settings_given
from mirror.config.settings import Flow, Settings
from mirror.flows.selection import flow_named
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.signals import on_signals
from mirror.runtime.text_columns import aligned
from mirror.verification.compare import Comparer, check_pieces, scope_of
from mirror.verification.pieces import Finding, Scope
from mirror.verification.watch import watch

COLUMNS = ("topic", "partition", "compared", "different", "missing", "gone", "digest", "result")
DIFFERENT = 1


DESCRIPTION = """\
Compare both clusters record by record, as a Spark job: each record of the source with its copy, by the offset map. Keys, values,
headers and timestamps must be equal. Changes nothing; the mirror may run meanwhile. "missing": on the source and not on the
target. "gone": left on one cluster only, because of retention or compaction."""
EXAMPLES = """\
examples:
  kafka-mirror verify mirror.properties 'a->b'
  kafka-mirror verify mirror.properties 'a->b' --topic 'orders|payments' --last 100000
  kafka-mirror verify mirror.properties 'a->b' --every 60 --rate 5000 --last 1        all new records from now on, with metrics
exit codes: 0 equal, 1 something differs or could not be read, 2 settings, 3 a cluster did not respond, 6 it refused"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_mirror(parser)
    add_flow(parser)
    parser.add_argument("--last", type=positive, metavar="N", help="only the newest N records of each partition")
    parser.add_argument(
        "--every", type=seconds, metavar="SECONDS", help="run until Ctrl-C and compare new records every SECONDS"
    )
    parser.add_argument(
        "--rate",
        type=positive,
        metavar="N",
        default=10_000,
        help="with --every, at most N records/s (default %(default)s)",
    )
    parser.add_argument(
        "--metrics-listen",
        metavar="HOST:PORT",
        default="127.0.0.1:9405",
        help="address of /metrics while --every runs (default %(default)s)",
    )


def run(parsed: Namespace) -> int:
    """Compare; return the exit code."""
    return verify(settings_given(parsed), parsed)


def verify(settings: Settings, args: Namespace) -> int:
    """Compare the given topics; print a table; return 0 if all is equal, else 1.

    Raises:
        SettingsError: the flow is unknown, or it replicates no such topic.
        ClusterUnavailable: a cluster did not respond.
    """
    flow = flow_named(settings, args.flow, command="verify")
    if args.every is not None:
        stop = threading.Event()
        on_signals({signal.SIGTERM: stop.set, signal.SIGINT: stop.set})
        return watch(settings, flow, args, stop)
    plan, scope = scope_of(flow, args)
    pieces = list(scope.pieces())
    records = sum(piece.records for piece in pieces)
    print(f"comparing {records:,} records of {len(scope.partitions)} partitions ...", file=sys.stderr, flush=True)
    found: dict[TopicPartition, Finding] = {}
    if pieces:
        with Comparer(settings) as comparer:
            found = comparer.compare(plan, pieces)
    print(_text(scope, found))
    for line in (*_unmapped(scope), *_differences(found)):
        print(line)
    return 0 if all(finding.is_equal for finding in found.values()) else DIFFERENT


@dataclass(frozen=True, slots=True)
class Verified:
    """The result for a whole flow: the number of compared records, and a sentence per difference."""

    mapped: int  # records with known target offsets
    compared: int  # of these, without records that compaction removed
    differences: list[str]


def verified(flow: Flow) -> Verified:
    """Verify all records of a flow without Spark, whose start takes longer in a demo."""
    plan, scope = scope_of(flow, Namespace(topic=None, last=None, every=None))
    pieces = list(scope.pieces())
    found = asyncio.run(check_pieces(plan, pieces))
    return Verified(
        sum(piece.records for piece in pieces),
        sum(finding.compared for finding in found.values()),
        [*_unmapped(scope), *_differences(found)],
    )


def _unmapped(scope: Scope) -> list[str]:
    return [
        f"{p.topic}-{p.partition}: no target offsets are known, so no records were compared" for p in scope.unmapped
    ]


def _differences(found: Mapping[TopicPartition, Finding]) -> list[str]:
    return [line for finding in found.values() for line in (finding.first, finding.failure) if line]


def _text(scope: Scope, found: Mapping[TopicPartition, Finding]) -> str:
    rows: list[tuple[str, ...]] = [COLUMNS]
    for p in scope.partitions:
        one = found.get(p.on_source)
        if one is None:
            rows.append((p.topic, str(p.partition), *("-" * 5), "unknown"))
            continue
        result = "equal" if one.is_equal else "not read" if one.failure else "DIFFERENT"
        counts = (one.compared, one.different, one.missing, one.gone)
        rows.append((p.topic, str(p.partition), *map(str, counts), one.digest, result))
    return aligned(rows, right=range(1, 6))
