"""Run `kafka-mirror lag`: poll once or repeatedly, select rows, print them."""

from __future__ import annotations

import shutil
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from metrics.lag_row import LagRow
from mirror.commands.options import add_targets, describe, names
from mirror.config.given import add_mirror, settings_given
from mirror.config.settings import Settings
from mirror.errors import EXIT_CLUSTER
from mirror.lag.inspector import Inspector
from mirror.lag.snapshot import Snapshot, selected
from mirror.lag.text import checker_text, csv_text, json_text, wide_text
from mirror.runtime.text_columns import one_line

TOO_FAR_BEHIND = 1

DESCRIPTION = """\
Print offset, log end and lag of the mirror's own flows and of every consumer group on its clusters, in the columns and
widths of Kafka's consumer offset checker. Reads from the clusters: kafka-mirror need not run. Changes nothing."""
EXAMPLES = """\
examples:
  kafka-mirror lag mirror.properties --wide --only-lagging      what lags, since when, and why
  kafka-mirror lag mirror.properties --group 'a->b' --watch     one flow, live
  kafka-mirror lag mirror.properties --fail-over-lag 0          in a script: exit 1 unless everything is on the target
prints, for example:
  Group           Topic                          Pid Offset          logSize         Lag             Owner
  a->b            orders                         0   200             200             0               127.0.0.1:9404
  billing         orders                         0   150             200             50              none
exit codes: 0 printed, 1 lag above --fail-over-lag, 2 settings, 3 a cluster did not respond, 6 it refused"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_mirror(parser)
    add_targets(parser)
    parser.add_argument(
        "--group", type=names, default=[], metavar="NAME[,NAME]", help="only these groups; a->b selects a flow"
    )
    parser.add_argument("--topic", type=names, default=[], metavar="NAME[,NAME]", help="only these topics")
    parser.add_argument("--only-lagging", action="store_true", help="leave out rows with lag 0")
    parser.add_argument(
        "--wide", action="store_true", help="also show time lag, status with its reason, rate, time until lag 0"
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--csv", action="store_true", help="print CSV")
    shape.add_argument(
        "--watch",
        type=float,
        nargs="?",
        const=5.0,
        metavar="SECONDS",
        help="repeat every SECONDS (default 5); on a terminal a live view with keys: s sorts, / filters, l hides lag 0, q quits",
    )
    parser.add_argument("--fail-over-lag", type=int, metavar="N", help="exit with 1 if a lag is above N or unknown")


def run(parsed: Namespace) -> int:
    """Print lag; return the exit code."""
    return lag(settings_given(parsed, targets=parsed.clusters), parsed)


def lag(settings: Settings, args: Namespace) -> int:
    """Print the rows that the command line selects; return the exit code."""
    inspector = Inspector(settings)
    try:
        if args.watch and sys.stdout.isatty() and sys.stdin.isatty():
            return _screen(inspector, args)
        while True:
            snapshot = inspector.poll(settles=True)
            rows = selected(snapshot.rows, groups=args.group, topics=args.topic, only_lagging=args.only_lagging)
            if args.watch:
                print(time.strftime("%H:%M:%S"))
            print(_text(snapshot, rows, args), end="", flush=True)
            for problem in snapshot.problems:
                print(f"kafka-mirror: {problem}", file=sys.stderr)
            if not args.watch:
                return _exit_code(snapshot, rows, args.fail_over_lag)
            time.sleep(args.watch)
    except KeyboardInterrupt:
        return 0
    finally:
        inspector.close()


def _screen(inspector: Inspector, args: Namespace) -> int:
    """Show lag live until the user quits."""
    from mirror.commands.lag_screen import LagScreen

    LagScreen(
        inspector.poll,
        inspector.window,
        lambda snapshot: selected(snapshot.rows, groups=args.group, topics=args.topic),
        every_s=args.watch,
        only_lagging=args.only_lagging,
    ).run()
    return 0


def _text(snapshot: Snapshot, rows: Sequence[LagRow], args: Namespace) -> str:
    if args.json:
        return json_text(snapshot, rows)
    if args.csv:
        return csv_text(rows)
    if not args.wide:
        return checker_text(rows)
    return wide_text(rows, shutil.get_terminal_size().columns if sys.stdout.isatty() else None)


def _exit_code(snapshot: Snapshot, rows: Sequence[LagRow], limit: int | None) -> int:
    if limit is None:
        return EXIT_CLUSTER if snapshot.problems else 0
    too_far = [row for row in rows if row.lag is None or row.lag > limit]
    for row in too_far[:1]:
        behind = "of unknown lag" if row.lag is None else f"{row.lag} records behind"
        more = f", and {len(too_far) - 1} more" if len(too_far) > 1 else ""
        print(f"kafka-mirror: {one_line(row.group)} is {behind} in {row.topic}-{row.partition}{more}", file=sys.stderr)
    return TOO_FAR_BEHIND if too_far or snapshot.problems else 0
