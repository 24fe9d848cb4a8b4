"""`kafka-mirror lag`: poll once or again and again, choose rows, print them."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Sequence

from mirror.columns import one_line
from mirror.config.settings import Settings
from mirror.errors import EXIT_CLUSTER
from mirror.lag.inspector import Inspector
from mirror.lag.rows import LagRow, Snapshot, chosen
from mirror.lag.text import checker_text, csv_text, json_text, wide_text

TOO_FAR_BEHIND = 1
CLEAR = "\033[2J\033[H"


def lag(settings: Settings, asked: Namespace) -> int:
    """Print what `asked` (the command line) wants to see; return the exit code."""
    inspector = Inspector(settings)
    try:
        while True:
            snapshot = inspector.poll()
            rows = chosen(snapshot.rows, groups=asked.group, topics=asked.topic, only_lagging=asked.only_lagging)
            if asked.watch:
                print(CLEAR if sys.stdout.isatty() else "", time.strftime("%H:%M:%S"), sep="")
            print(_text(snapshot, rows, asked), end="", flush=True)
            for problem in snapshot.problems:
                print(f"kafka-mirror: {problem}", file=sys.stderr)
            if not asked.watch:
                return _exit_code(snapshot, rows, asked.fail_over_lag)
            time.sleep(asked.watch)
    except KeyboardInterrupt:
        return 0
    finally:
        inspector.close()


def _text(snapshot: Snapshot, rows: Sequence[LagRow], asked: Namespace) -> str:
    if asked.json:
        return json_text(snapshot, rows)
    if asked.csv:
        return csv_text(rows)
    return wide_text(rows) if asked.wide else checker_text(rows)


def _exit_code(snapshot: Snapshot, rows: Sequence[LagRow], limit: int | None) -> int:
    if limit is None:
        return EXIT_CLUSTER if snapshot.problems else 0
    too_far = [row for row in rows if row.lag is None or row.lag > limit]
    for row in too_far[:1]:
        behind = "of unknown lag" if row.lag is None else f"{row.lag} records behind"
        more = f", and {len(too_far) - 1} more" if len(too_far) > 1 else ""
        print(f"kafka-mirror: {one_line(row.group)} is {behind} in {row.topic}-{row.partition}{more}", file=sys.stderr)
    return TOO_FAR_BEHIND if too_far or snapshot.problems else 0
