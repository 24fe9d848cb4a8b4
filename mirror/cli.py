"""The command line: `kafka-mirror run|plan|explain|classic|lag|translate|positions|verify|app|clusters|dashboards|demo`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from mirror.errors import MirrorError, SettingsError
from mirror.lean import leave_out_pandas
from mirror.logs import log_to_stderr

RUN_HELP = """\
Replicate every enabled flow of FILE (a connect-mirror-maker.properties, as MirrorMaker 2 reads it) until Ctrl-C or
SIGTERM. Positions are kept on the target cluster, so a start goes on where the last run ended."""

EXPLAIN_HELP = """\
Print every effective value of FILE's enabled flows, of their clients and of the program itself: where it comes from and
what it overrides; then the keys without effect, with the reason. Secrets are shown as ***. Asks no cluster."""
EXPLAIN_EXAMPLES = """\
examples:
  kafka-mirror explain mirror.properties                        all flows
  kafka-mirror explain mirror.properties 'a->b' --json          one flow, for a script
  kafka-mirror explain mirror.properties --window-ms 2000       with the options that run is given
exit codes: 0 printed, 2 settings"""

LAG_HELP = """\
Print offset, log end and lag of the mirror's own flows and of every consumer group on its clusters, in the columns and
widths of Kafka's consumer offset checker. Asks the clusters themselves: the appliance need not run. Reads only."""
LAG_EXAMPLES = """\
examples:
  kafka-mirror lag mirror.properties --wide --only-lagging      what is behind, since when, and why
  kafka-mirror lag mirror.properties --group 'a->b' --watch     one flow, again every 5 seconds
  kafka-mirror lag mirror.properties --fail-over-lag 0          in a script: exit 1 unless everything is on the target
exit codes: 0 printed, 1 further behind than --fail-over-lag allows, 2 settings, 3 a cluster did not answer"""

CLASSIC_HELP = """\
Mirror one or more source clusters into one target as kafka-mirror-maker.sh did: topics keep their names, topics that appear
later join by themselves, and progress shows in the consumer group of each consumer file, where it also begins. A topic that
has another number of partitions on the target keeps it: keyed records go where Kafka's default partitioner puts them."""
CLASSIC_EXAMPLES = """\
examples:
  kafka-mirror classic --consumer.config dc1.properties --producer.config central.properties --whitelist 'orders|payments'
  kafka-mirror classic --consumer.config dc1.properties --consumer.config dc2.properties --producer.config central.properties \\
      --blacklist 'test.*' --num.streams 4"""
POSITIONS_HELP = """\
Show where a flow stands on each topic-partition, or put it elsewhere before it starts: to begin at a time or an offset, to
leave something out, or to replicate something again (its records come a second time then). Refused while the flow runs.
Topics of a running flow can be paused and resumed; it takes a second, and is remembered until they are resumed."""
POSITIONS_EXAMPLES = """\
examples:
  kafka-mirror positions show mirror.properties 'a->b'
  kafka-mirror positions set mirror.properties 'a->b' --to 2026-01-31T12:00:00Z              before the first start
  kafka-mirror positions set mirror.properties 'a->b' --topic orders --partition 3 --to 4711
  kafka-mirror positions reset mirror.properties 'a->b' --topic 'orders|payments'
  kafka-mirror positions pause mirror.properties 'a->b' --topic 'audit.*'"""
VERIFY_HELP = """\
Read both clusters and compare record by record, as a Spark job: each record with the one that the mirror made of it, which
the offset map tells. Keys, values, headers and timestamps must be the same. Reads only; the mirror may run meanwhile.
"missing" is on the source and not on the target; "gone" is only left on one of them, which retention and compaction explain."""
VERIFY_EXAMPLES = """\
examples:
  kafka-mirror verify mirror.properties 'a->b'
  kafka-mirror verify mirror.properties 'a->b' --topic 'orders|payments' --last 100000
  kafka-mirror verify mirror.properties 'a->b' --every 60 --rate 5000 --last 1        all that is new from now on, with metrics
exit codes: 0 equal, 1 something differs or could not be read, 2 settings, 3 a cluster did not answer"""
FAILOVER_HELP = """\
Say of each flow A->B whether A's readers may go to B now: GO; GO WITH LOSS, and how much; or NO, and why. Asks both clusters,
3 s each, and the appliance of the file for what it alone knows. That A is down is a reason to go; that B is down is a veto.
Reads only."""
FAILOVER_EXAMPLES = """\
examples:
  kafka-mirror failover-check mirror.properties
  kafka-mirror failover-check mirror.properties 'a->b' --json
exit codes: 0 GO, 1 GO WITH LOSS, 5 NO, 2 settings"""
TRANSLATE_HELP = """\
Say where on cluster B the records begin that a reader at some offset of cluster A has not read: along the mirror's flows, or
back along them. Exact at any lag; "-" where it is not known. For a fail-over or a fail-back, and for what is no consumer
group: checkpoints of Spark or Flink. Asks the clusters themselves: the appliance need not run. Reads only."""
TRANSLATE_EXAMPLES = """\
examples:
  kafka-mirror translate mirror.properties 'a->b' --group billing                        before a fail-over
  kafka-mirror translate mirror.properties 'b->a' --group billing                        before the fail-back
  kafka-mirror translate mirror.properties 'a->b' --topic orders --partition 3 --offset 4711 --json
exit codes: 0 printed, 1 nothing could be translated, 2 settings, 3 a cluster did not answer"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code: 0 done, 1 other, 2 settings, 3 cluster, 4 stream."""
    parsed = _parser().parse_args(arguments)
    log_to_stderr(verbose=parsed.verbose)
    try:
        code: int = parsed.command(parsed)
    except MirrorError as error:
        print(f"kafka-mirror: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return code


def entry() -> NoReturn:
    """Be the whole program: run `main` and leave at once.

    At the interpreter's own end librdkafka waits up to a minute for a commit to a cluster that does not answer; by then
    everything of ours is closed.
    """
    code = main()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kafka-mirror", description="Mirror Kafka clusters, and measure it.", epilog="More: README.md and docs/."
    )
    parser.add_argument("--verbose", action="store_true", help="log details")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="replicate the flows of a file", description=RUN_HELP)
    run.set_defaults(command=_run)
    plan = commands.add_parser("plan", help="print what a file would replicate; changes nothing")
    plan.set_defaults(command=_plan)
    explain = commands.add_parser(
        "explain", help="print what a file's settings come to, and where each comes from", description=EXPLAIN_HELP,
        epilog=EXPLAIN_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    explain.set_defaults(command=_explain)
    for command in (run, plan, explain):
        _file_options(command)
    explain.add_argument("flow", metavar="FLOW", nargs="?", default="", help="only this one, written as A->B")
    explain.add_argument("--json", action="store_true", help="print JSON")
    classic = commands.add_parser(
        "classic", help="mirror as MirrorMaker 1 did: its options, its files, same topic names",
        description=CLASSIC_HELP, epilog=CLASSIC_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    _classic_options(classic)
    _own_options(classic)
    classic.set_defaults(command=_classic)

    lag = commands.add_parser(
        "lag", help="print lag as Kafka's consumer offset checker did", description=LAG_HELP, epilog=LAG_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    _lag_options(lag)
    lag.set_defaults(command=_lag)

    failover = commands.add_parser(
        "failover-check", help="say whether readers may go to a target now, and what that would cost",
        description=FAILOVER_HELP, epilog=FAILOVER_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    failover.add_argument("file", type=Path, metavar="FILE", help="the connect-mirror-maker.properties of the mirror")
    failover.add_argument("flow", metavar="A->B", nargs="?", default="", help="only this flow (default: all)")
    failover.add_argument("--json", action="store_true", help="print JSON")
    failover.set_defaults(command=_failover_check)

    translate = commands.add_parser(
        "translate", help="say where an offset, or a group, is on another cluster", description=TRANSLATE_HELP,
        epilog=TRANSLATE_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    translate.add_argument("file", type=Path, metavar="FILE", help="the connect-mirror-maker.properties of the mirror")
    translate.add_argument("pair", metavar="A->B", help="from which cluster to which; several flows may lie between")
    translate.add_argument("--group", metavar="NAME", help="all offsets of this group on A")
    translate.add_argument("--topic", metavar="NAME", help="or one offset: of this topic as A calls it")
    translate.add_argument("--partition", type=int, metavar="N", default=0, help="(default 0)")
    translate.add_argument("--offset", type=int, metavar="N", help="next offset to read on A")
    translate.add_argument("--json", action="store_true", help="print JSON")
    translate.set_defaults(command=_translate)

    positions = commands.add_parser(
        "positions", help="show where a flow stands, or put it elsewhere", description=POSITIONS_HELP,
        epilog=POSITIONS_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    actions = positions.add_subparsers(required=True, metavar="ACTION", dest="action")
    for action, what in {
        "show": "print positions",
        "set": "set them",
        "reset": "replicate from the begin again",
        "pause": "let topics rest, also while the flow runs",
        "resume": "let them go on",
    }.items():
        one = actions.add_parser(action, help=what)
        one.add_argument("file", type=Path, metavar="FILE", help="the connect-mirror-maker.properties of the mirror")
        one.add_argument("flow", metavar="A->B", help="the flow")
        one.add_argument("--topic", metavar="REGEX", help="only these topics, as the source calls them (default: all)")
        one.set_defaults(partition=None)
        if action not in ("pause", "resume"):
            one.add_argument("--partition", type=int, metavar="N", help="only this partition")
        if action == "set":
            one.add_argument(
                "--to", required=True, metavar="WHERE", help="earliest, latest, an offset, or a time (ISO 8601)"
            )
        if action in ("set", "reset"):
            one.add_argument("--force", action="store_true", help="also when the flow seems to run")
        one.set_defaults(command=_positions)

    verify = commands.add_parser(
        "verify", help="compare what is on the target with the source", description=VERIFY_HELP, epilog=VERIFY_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    verify.add_argument("file", type=Path, metavar="FILE", help="the connect-mirror-maker.properties of the mirror")
    verify.add_argument("flow", metavar="A->B", help="the flow")
    verify.add_argument("--topic", metavar="REGEX", help="only these topics, as the source calls them (default: all)")
    verify.add_argument("--last", type=_positive, metavar="N", help="only the newest N records of each topic-partition")
    verify.add_argument(
        "--every", type=_seconds, metavar="SECONDS", help="go on until Ctrl-C: compare what is new, so often"
    )
    verify.add_argument(
        "--rate",
        type=_positive,
        metavar="N",
        default=10_000,
        help="with --every, at most N records/s (default %(default)s)",
    )
    verify.add_argument(
        "--metrics-listen", metavar="HOST:PORT", default="127.0.0.1:9405",
        help="with --every, where /metrics tells what was found (default %(default)s)",
    )  # fmt: skip
    verify.set_defaults(command=_verify)

    app = commands.add_parser("app", help="serve the lag inspector, a page to look at lag")
    app.add_argument("file", type=Path, metavar="FILE", help="the connect-mirror-maker.properties of the mirror")
    app.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:8501", help="where (default %(default)s)")
    app.set_defaults(command=_app)

    clusters = commands.add_parser("clusters", help="start or stop a pair of embedded Kafka clusters for development")
    clusters.add_argument("action", choices=("up", "down"))
    clusters.add_argument(
        "--dir", type=Path, default=Path("state/clusters"), help="where they live (default %(default)s)"
    )
    clusters.set_defaults(command=_clusters)

    boards = commands.add_parser(
        "dashboards", help="write the generated boards, rules and docs/metrics.md, or check that they are up to date"
    )
    boards.add_argument("action", choices=("build", "check", "preview"))
    boards.add_argument("--out", type=Path, metavar="DIR", help="folder to write below (default: the project's)")
    boards.add_argument(
        "--runbook-url", metavar="URL", help="where alerts and boards link to (default: docs/runbook.md)"
    )
    boards.add_argument(
        "--grafana-url", metavar="URL", help="where alerts find the boards (default: http://localhost:3000)"
    )
    boards.add_argument("--inspector-url", metavar="URL", help="where alerts find the lag inspector (default: no link)")
    boards.add_argument(
        "--selector",
        metavar="MATCHERS",
        help="""the mirror's scrape job, for example job="a" (default: job="kafka-mirror")""",
    )
    boards.add_argument(
        "--rpo-warning-s", type=int, metavar="N", help="a topic that waits longer is a warning (default: 300)"
    )
    boards.add_argument(
        "--rpo-critical-s", type=int, metavar="N", help="a topic that waits longer wakes somebody (default: 1800)"
    )
    boards.add_argument(
        "--prometheus", metavar="URL", default="http://127.0.0.1:9090", help="preview asks it (default %(default)s)"
    )
    boards.set_defaults(command=_dashboards)

    demo = commands.add_parser("demo", help="mirror between two embedded clusters and watch it")
    demo.add_argument("--seconds", type=float, help="stop after this long, compare both sides and print the verdict")
    demo.add_argument("--rate", type=int, default=500, help="records per second to produce (default %(default)s)")
    demo.set_defaults(command=_demo)
    return parser


def _lag_options(lag: argparse.ArgumentParser) -> None:
    lag.add_argument("file", type=Path, metavar="FILE", help="the connect-mirror-maker.properties of the mirror")
    lag.add_argument("--clusters", nargs="+", metavar="ALIAS", default=[], help="only flows into these targets")
    lag.add_argument(
        "--group", type=_names, default=[], metavar="NAME[,NAME]", help="only these groups; a flow's is a->b"
    )
    lag.add_argument("--topic", type=_names, default=[], metavar="NAME[,NAME]", help="only these topics")
    lag.add_argument("--only-lagging", action="store_true", help="leave out what is level")
    lag.add_argument(
        "--wide", action="store_true", help="also time lag, status with its reason, rate, time until level"
    )
    shape = lag.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--csv", action="store_true", help="print CSV")
    shape.add_argument(
        "--watch", type=float, nargs="?", const=5.0, metavar="SECONDS", help="again every 5 seconds, or so many"
    )
    lag.add_argument(
        "--fail-over-lag", type=int, metavar="N", help="exit with 1 when a lag is above N, or is not known"
    )


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _file_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="FILE", help="a connect-mirror-maker.properties")
    command.add_argument("--clusters", nargs="+", metavar="ALIAS", default=[], help="only flows into these targets")
    _own_options(command)


def _classic_options(classic: argparse.ArgumentParser) -> None:
    from mirror.classic import NEEDLESS

    classic.add_argument(
        "--consumer.config", dest="consumer_configs", type=Path, action="append", required=True, metavar="FILE",
        help="consumer properties of a source cluster; once for each",
    )  # fmt: skip
    classic.add_argument(
        "--producer.config", dest="producer_config", type=Path, required=True, metavar="FILE",
        help="producer properties of the target cluster",
    )  # fmt: skip
    classic.add_argument("--include", metavar="REGEX", help='topics to mirror; "," is "|", "*" is every topic')
    classic.add_argument("--whitelist", metavar="REGEX", help="the same")
    classic.add_argument("--blacklist", metavar="REGEX", help="mirror every topic but these")
    classic.add_argument(
        "--num.streams", dest="num_streams", type=int, default=1, metavar="N", help="tasks per source (default 1)"
    )
    classic.add_argument("--message.handler", dest="message_handler", help=argparse.SUPPRESS)
    classic.add_argument("--message.handler.args", dest="message_handler_args", help=argparse.SUPPRESS)
    for option, why in NEEDLESS.items():
        classic.add_argument(
            f"--{option}", dest=option.replace(".", "_"), nargs="?", const="", metavar="X", help=f"accepted: {why}"
        )


def _own_options(command: argparse.ArgumentParser) -> None:
    own = command.add_argument_group("settings of the appliance (each also a key mirror.* of the file)")
    own.add_argument("--metrics-listen", metavar="HOST:PORT", help="where /metrics is served (default 127.0.0.1:9404)")
    own.add_argument(
        "--metrics-max-series",
        metavar="N",
        help="series that one scrape may bring; beyond it partitions fold (default 250000)",
    )
    own.add_argument(
        "--metrics-strimzi-names",
        metavar="BOOL",
        help="also serve MirrorMaker's measures under Strimzi's names (default false)",
    )
    own.add_argument("--state-dir", metavar="DIR", help="Spark's checkpoint location and the plan (default state)")
    own.add_argument("--window-ms", metavar="MS", help="length of a micro-batch (default 10000)")
    own.add_argument("--lanes", metavar="N", help="streaming queries taking turns, 1 or 2 (default 2)")
    own.add_argument("--slots", metavar="N", help="tasks per window (default: the cores)")
    own.add_argument("--poll-interval-ms", metavar="MS", help="how often offsets and lag are read (default 5000)")
    own.add_argument(
        "--source-group-enabled",
        metavar="BOOL",
        help="commit positions on the source too, for lag tools (default true)",
    )
    own.add_argument(
        "--spark", action="append", default=[], metavar="KEY=VALUE", help="spark.KEY for Spark; repeatable"
    )


def _options(parsed: argparse.Namespace) -> dict[str, str]:
    named = {
        "mirror.metrics.listen": parsed.metrics_listen,
        "mirror.metrics.max.series": parsed.metrics_max_series,
        "mirror.metrics.strimzi.names": parsed.metrics_strimzi_names,
        "mirror.state.dir": parsed.state_dir,
        "mirror.window.ms": parsed.window_ms,
        "mirror.lanes": parsed.lanes,
        "mirror.slots": parsed.slots,
        "mirror.poll.interval.ms": parsed.poll_interval_ms,
        "mirror.source.group.enabled": parsed.source_group_enabled,
    }
    options = {key: value for key, value in named.items() if value is not None}
    for setting in parsed.spark:
        key, _, value = setting.partition("=")
        options[f"mirror.spark.{key.removeprefix('spark.')}"] = value
    return options


# Each command imports what it needs: `--help` and a bad file answer at once, without Spark.


def _run(parsed: argparse.Namespace) -> int:
    leave_out_pandas()
    from mirror.appliance import Appliance

    settings = _load(parsed)
    Appliance(settings).run()
    return 0


def _classic(parsed: argparse.Namespace) -> int:
    leave_out_pandas()
    from mirror.appliance import Appliance
    from mirror.classic import classic_settings, needless_options

    settings = classic_settings(parsed, _options(parsed))
    for line in needless_options(parsed):
        logging.getLogger("mirror").warning("%s", line)
    _tell_ignored(settings)
    Appliance(settings).run()
    return 0


def _load(parsed: argparse.Namespace):  # type: ignore[no-untyped-def]
    from mirror.config.settings import load

    settings = load(parsed.file, options=_options(parsed), targets=parsed.clusters)
    _tell_ignored(settings)
    return settings


def _tell_ignored(settings) -> None:  # type: ignore[no-untyped-def]
    if settings.ignored:
        why = settings.ignored_why
        named = ", ".join(f"{key} ({why[key]})" if key in why else key for key in settings.ignored)
        logging.getLogger("mirror").warning("without effect: %s", named)


def _plan(parsed: argparse.Namespace) -> int:
    from mirror.plan_text import plan_text

    print(plan_text(_load(parsed)), end="")
    return 0


def _explain(parsed: argparse.Namespace) -> int:
    from mirror.config.explain import as_json, as_text, explain
    from mirror.config.settings import checked, sources

    given = sources(parsed.file, _options(parsed))
    found = explain(given, checked(given, targets=parsed.clusters), parsed.flow)
    print(as_json(found) if parsed.json else as_text(found), end="")
    return 0


def _lag(parsed: argparse.Namespace) -> int:
    from mirror.config.settings import load
    from mirror.lag.command import lag

    return lag(load(parsed.file, options={}, targets=parsed.clusters), parsed)


def _verify(parsed: argparse.Namespace) -> int:
    leave_out_pandas()
    from mirror.config.settings import load
    from mirror.verification.command import verify

    return verify(load(parsed.file), parsed)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f'"{text}" is no time to wait. Write 1 to 86400 seconds.')
    return seconds


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is no number of records. Write 1 or more.')
    return int(text)


def _translate(parsed: argparse.Namespace) -> int:
    from mirror.checkpoints.translate import translate
    from mirror.config.settings import load

    return translate(load(parsed.file, options={}, targets=[]), parsed)


def _positions(parsed: argparse.Namespace) -> int:
    from mirror.config.settings import load
    from mirror.positions_command import positions

    return positions(load(parsed.file, options={}, targets=[]), parsed)


def _app(parsed: argparse.Namespace) -> int:
    from app.serve import serve
    from mirror.config.settings import load

    load(parsed.file, options={}, targets=[])  # a bad file is told here, in one line
    host, _, port = parsed.listen.rpartition(":")
    if not host or not port.isdigit():
        raise SettingsError(f'--listen: "{parsed.listen}" is no address. Write HOST:PORT, such as 127.0.0.1:8501.')
    serve(parsed.file, host, int(port))


def _clusters(parsed: argparse.Namespace) -> int:
    from mirror.local import clusters

    (clusters.up if parsed.action == "up" else clusters.down)(parsed.dir)
    return 0


def _failover_check(parsed: argparse.Namespace) -> int:
    from mirror.config.settings import load
    from mirror.lag.failover_command import failover_check

    return failover_check(load(parsed.file, options={}, targets=[]), parsed.flow, as_json=parsed.json)


def _dashboards(parsed: argparse.Namespace) -> int:
    from dashboards.build import ROOT, build, stale
    from dashboards.monitoring import Monitoring

    if parsed.action == "preview":
        from dashboards.preview import preview
        from mirror.prometheus import Prometheus

        page = (parsed.out or Path()) / "preview.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(preview(Prometheus(parsed.prometheus)))
        print(page)
        return 0
    root = parsed.out or ROOT
    if parsed.action == "build":
        given = {
            "runbook": parsed.runbook_url,
            "grafana": parsed.grafana_url,
            "inspector": parsed.inspector_url,
            "selector": parsed.selector,
            "rpo_warning_s": parsed.rpo_warning_s,
            "rpo_critical_s": parsed.rpo_critical_s,
        }
        monitoring = Monitoring(**{name: value for name, value in given.items() if value is not None})
        for name in build(root, monitoring):
            print(root / name if parsed.out else name)
        return 0
    changed = stale(root)
    for name in changed:
        print(f"{name} is not what would be generated; run: kafka-mirror dashboards build", file=sys.stderr)
    return 1 if changed else 0


def _demo(parsed: argparse.Namespace) -> int:
    leave_out_pandas()
    from mirror.local.demo import demo

    return demo(seconds=parsed.seconds, rate=parsed.rate)


if __name__ == "__main__":
    entry()
