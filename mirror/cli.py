"""Parse the command line `kafka-mirror COMMAND`; each command is a file in mirror/commands."""

from __future__ import annotations

import argparse
import importlib
import keyword
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from mirror import __version__
from mirror.errors import MirrorError
from mirror.runtime.logs import log_to_stderr, print_error
from mirror.runtime.without_pandas import leave_out_pandas

GROUPS = {
    "Set up": {
        "import": "write the settings file from a Strimzi resource, connector JSON or a running Connect",
        "explain": "print the effective settings of a file, with their origin",
        "plan": "print what a file would replicate; changes nothing",
        "prepare": "pre-build Spark's class archive, so that the first start is as fast as later ones",
    },
    "Run": {
        "run": "replicate the flows of a file",
        "classic": "replicate as MirrorMaker 1 did: its options, its files, same topic names",
    },
    "Observe": {
        "lag": "print lag as Kafka's consumer offset checker did",
        "app": "serve the lag inspector, web pages with lag and its reasons",
        "gaps": "print all records that were lost, skipped, repeated or refused",
        "verify": "compare the target's records with the source's",
    },
    "Fail over": {
        "failover-check": "report whether consumers can move to a target now, and at what cost",
        "drill": "rehearse a switch and the failback with a canary topic",
        "switch": "move consumers and producers to a flow's target; can be switched back",
        "switch-back": "move consumers and producers back to the source cluster",
        "migrate": "move consumers and producers to the target for good",
        "switches": "print past and running switches",
        "translate": "translate the offsets of a group, or one offset, to another cluster",
        "positions": "show a flow's positions, or set, pause, resume or export them",
    },
    "Develop": {
        "demo": "mirror between two embedded clusters and watch it",
        "clusters": "start or stop a pair of embedded Kafka clusters",
        "dashboards": "write the generated dashboards, rules and docs/metrics.md, or check them",
    },
}
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}
WITH_SPARK = ("run", "classic", "verify", "demo", "prepare")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code.

    0 done, 1 other, 2 settings, 3 cluster, 4 stream, 5 not allowed, 6 refused.
    """
    parsed = parse(sys.argv[1:] if arguments is None else arguments)
    log_to_stderr(verbose=parsed.verbose)
    try:
        code: int = parsed.run(parsed)
    except MirrorError as error:
        print_error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return code


def entry() -> NoReturn:
    """Run `main` as the whole program, and exit immediately.

    When the interpreter ends, librdkafka waits up to a minute for a commit to a cluster that does not respond. Everything else is
    already closed.
    """
    if command_in(sys.argv[1:]) in WITH_SPARK:
        leave_out_pandas()
    try:
        code = main()
    except Exception:  # noqa: BLE001 - an unexpected error; threads must not keep the process alive
        traceback.print_exc()
        code = 1
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the given options, and the command's function as `run`.

    Only the given command is imported, so that help and errors appear immediately.
    """
    parser = argparse.ArgumentParser(
        prog="kafka-mirror",
        description="Replicate topics between Kafka clusters, show lag, and fail over.",
        epilog=_overview(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kafka-mirror {__version__}")
    parser.add_argument("--verbose", action="store_true", help="log details")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", help="one of the commands below")
    given = command_in(arguments)
    for name in COMMANDS:
        command = commands.add_parser(name)
        if name == given:
            module = importlib.import_module(f"mirror.commands.{module_of(name)}")
            module.declare(command)
            command.set_defaults(run=module.run)
    return parser.parse_args(arguments)


def _overview() -> str:
    groups = (
        "\n".join((f"{title}:", *(f"  {name:16}{summary}" for name, summary in group.items())))
        for title, group in GROUPS.items()
    )
    return "\n\n".join(
        (*groups, "Options of a command: kafka-mirror COMMAND --help. Documentation: README.md and docs/.")
    )


def command_in(arguments: Sequence[str]) -> str | None:
    """Return the given command, or None."""
    return next((argument for argument in arguments if argument in COMMANDS), None)


def module_of(command: str) -> str:
    """Return the module name of a command; a Python keyword gets an underscore."""
    name = command.replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


if __name__ == "__main__":
    entry()
