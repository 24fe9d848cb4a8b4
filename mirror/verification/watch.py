"""Run `kafka-mirror verify --every SECONDS`: compare new records round by round, at a limited rate.

The results are exported as metrics.
"""

from __future__ import annotations

import logging
import threading
import time
from argparse import Namespace
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from metrics.exporter import PortTakenError, serve
from metrics.exposition import exposition
from metrics.recorder import Recorder
from mirror.config.properties import Entry
from mirror.config.settings import Flow, Settings
from mirror.config.values import host_port
from mirror.errors import ClusterUnavailable, SettingsError
from mirror.model.offset_map import OffsetRun
from mirror.model.topic_partition import TopicPartition
from mirror.verification.compare import Comparer, scope_of
from mirror.verification.pieces import Finding, Piece, newest

log = logging.getLogger("mirror")


def due(pieces: Iterable[Piece], until: Mapping[TopicPartition, int], *, most: int) -> tuple[list[Piece], int]:
    """Choose the pieces of the next round: for each partition, the oldest pieces after `until`.

    Partitions take turns, one piece each, until `most` records are chosen. The last piece is cut to fit.

    Returns:
        The pieces, and how many records are left for later rounds.
    """
    waiting: dict[TopicPartition, deque[Piece]] = {}
    for piece in pieces:
        key = TopicPartition(piece.topic, piece.partition)
        cut = max(0, until.get(key, 0) - piece.source)
        if cut < piece.records:
            waiting.setdefault(key, deque()).append(piece.after(cut))
    chosen: list[Piece] = []
    room = most
    while room > 0 and waiting:
        for key in list(waiting):
            piece = waiting[key].popleft()
            taken = piece._replace(records=min(piece.records, room))
            chosen.append(taken)
            room -= taken.records
            if taken.records < piece.records:
                waiting[key].appendleft(piece.after(taken.records))
            if not waiting[key]:
                del waiting[key]
            if room <= 0:
                break
    return chosen, sum(piece.records for pieces in waiting.values() for piece in pieces)


def newest_only(pieces: Iterable[Piece], last: int) -> dict[TopicPartition, int]:
    """Return the source offset at which each partition's newest `last` records start."""
    runs: dict[TopicPartition, list[OffsetRun]] = {}
    for piece in pieces:
        runs.setdefault(TopicPartition(piece.topic, piece.partition), []).append(
            OffsetRun(piece.source, piece.target, piece.records)
        )
    return {key: newest(its, last)[0].source for key, its in runs.items()}


@dataclass(slots=True)
class Progress:
    """How far each partition is compared, and the differences so far."""

    until: dict[TopicPartition, int] = field(default_factory=dict)
    wrong: int = 0

    def took(self, pieces: Iterable[Piece], found: Mapping[TopicPartition, Finding]) -> list[str]:
        """Record a round; return its log lines. Pieces that could not be read are read again."""
        lines = []
        for piece in pieces:
            finding = found[TopicPartition(piece.topic, piece.partition)]
            if not finding.failure:
                self.until[TopicPartition(piece.topic, piece.partition)] = piece.source + piece.records
        for finding in found.values():
            self.wrong += finding.different + finding.missing
            lines += [line for line in (finding.first, finding.failure) if line]
        return lines


def _listening(stack: ExitStack, settings: Settings, recorder: Recorder, listen: str) -> tuple[str, int]:
    """Serve metrics while the stack is open; return the address."""
    access, most = settings.mirror.http, settings.mirror.metrics_max_series
    host, port = host_port(Entry(key="--metrics-listen", value=listen, where="option"))
    serving = serve(
        lambda wanted: exposition(recorder.snapshot(), recorder.store.began(), wanted=wanted, max_series=most).encode(),
        host,
        port,
        is_ready=lambda: True,
        access=access,
    )
    try:
        return host, stack.enter_context(serving)
    except PortTakenError as error:
        raise SettingsError(f"verify: --metrics-listen: {error}") from error


def watch(settings: Settings, flow: Flow, args: Namespace, stop: threading.Event) -> int:
    """Compare until `stop` is set; return 0 if all was equal, else 1.

    Raises:
        SettingsError: the address is taken, or the flow replicates no such topic.
    """
    recorder, progress = Recorder(), Progress()
    labels = (flow.source.alias, flow.target.alias)
    with ExitStack() as stack:
        host, port = _listening(stack, settings, recorder, args.metrics_listen)
        comparer = stack.enter_context(Comparer(settings))
        log.info(
            "verifying %s every %g s, at most %s records/s; metrics on %s://%s:%d/metrics",
            flow.name,
            args.every,
            f"{args.rate:,}",
            settings.mirror.http.scheme,
            host,
            port,
        )
        while True:
            began = time.monotonic()
            try:
                plan, scope = scope_of(flow, args)
                pieces = list(scope.pieces())
                if args.last is not None and not progress.until:
                    progress.until = newest_only(pieces, args.last)
                chosen, left = due(pieces, progress.until, most=int(args.rate * args.every))
                found = comparer.compare(plan, chosen)
            except ClusterUnavailable as error:
                log.warning("%s: not verified: %s", flow.name, error)
            else:
                for line in progress.took(chosen, found):
                    print(line, flush=True)
                remote = {p.on_source: p.remote_topic for p in scope.partitions}
                for key, finding in found.items():
                    place = (*labels, remote[key], str(key[1]))
                    recorder.record_verified(
                        place, equal=finding.compared - finding.different, wrong=finding.different + finding.missing
                    )
                recorder.record_verify_round(labels, left=left, now_s=time.time())
                log.info(
                    "%s: %s records compared, %s left, %d wrong so far",
                    flow.name,
                    f"{sum(f.compared for f in found.values()):,}",
                    f"{left:,}",
                    progress.wrong,
                )
            if stop.wait(max(0.0, args.every - (time.monotonic() - began))):
                return 1 if progress.wrong else 0
