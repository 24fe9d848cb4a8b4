"""Run `kafka-mirror dashboards`: write the generated boards, rules and docs/metrics.md, or check them."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from dashboards.build import ROOT, build, stale
from dashboards.monitoring import Monitoring
from mirror.commands.options import describe
from mirror.errors import SettingsError

DESCRIPTION = """\
Write Grafana's boards, Prometheus' rules and docs/metrics.md (build), or list which of these files differ from what build
would write (check)."""
EXAMPLES = """\
examples:
  kafka-mirror dashboards build --out monitoring --runbook-url https://wiki/mirror --selector 'job="mirror-eu"'
exit codes: 0 done, 1 a file is not up to date, 2 --out is missing"""
SETTINGS = ("runbook", "grafana", "inspector", "selector", "rpo_warning_s", "rpo_critical_s")


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument("action", choices=("build", "check"))
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder to write below (default: the clone's)")
    parser.add_argument(
        "--runbook-url",
        dest="runbook",
        metavar="URL",
        help="address of the runbook for links (default: docs/runbook.md)",
    )
    parser.add_argument(
        "--grafana-url",
        dest="grafana",
        metavar="URL",
        help="address of Grafana for links in alerts (default: http://localhost:3000)",
    )
    parser.add_argument(
        "--inspector-url",
        dest="inspector",
        metavar="URL",
        help="address of the lag inspector for links in alerts (default: no link)",
    )
    parser.add_argument(
        "--selector",
        metavar="MATCHERS",
        help="""the mirror's scrape job, for example job="a" (default: job="kafka-mirror")""",
    )
    parser.add_argument(
        "--rpo-warning-s",
        type=int,
        metavar="N",
        help="time lag in seconds above which a topic fires a warning alert (default: 300)",
    )
    parser.add_argument(
        "--rpo-critical-s",
        type=int,
        metavar="N",
        help="time lag in seconds above which a topic fires a critical alert (default: 1800)",
    )


def run(parsed: Namespace) -> int:
    """Run the action; return the exit code."""
    return {"build": _build, "check": _check}[parsed.action](parsed)


def _build(parsed: Namespace) -> int:
    root = _folder(parsed)
    given = {name: getattr(parsed, name) for name in SETTINGS}
    for name in build(root, Monitoring(**{name: value for name, value in given.items() if value is not None})):
        print(root / name if parsed.out else name)
    return 0


def _check(parsed: Namespace) -> int:
    changed = stale(_folder(parsed))
    for name in changed:
        print(f"{name} is not what would be generated; run: kafka-mirror dashboards build", file=sys.stderr)
    return 1 if changed else 0


def _folder(parsed: Namespace) -> Path:
    """Return the folder of the generated files.

    Raises:
        SettingsError: no folder is given, and the package is installed without a clone.
    """
    if parsed.out is None and not (ROOT / "pyproject.toml").is_file():
        raise SettingsError("--out is missing, and kafka-mirror does not run from a clone. Give a folder: --out DIR.")
    return Path(parsed.out or ROOT)
