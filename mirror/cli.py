"""Join the command line `kafka-mirror COMMAND`: each command is a file of mirror/commands."""

from __future__ import annotations

import argparse
import importlib
import keyword
import logging
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from mirror.errors import MirrorError
from mirror.runtime.logs import log_to_stderr
from mirror.runtime.without_pandas import leave_out_pandas

COMMANDS = {
    "run": "replicate the flows of a file",
    "plan": "print what a file would replicate; changes nothing",
    "explain": "print what a file's settings come to, and where each comes from",
    "import": "write the file from a Strimzi resource, connector JSON or a running Connect",
    "classic": "mirror as MirrorMaker 1 did: its options, its files, same topic names",
    "lag": "print lag as Kafka's consumer offset checker did",
    "failover-check": "say whether readers may go to a target now, and what that would cost",
    "switch": "move readers and writers to a flow's target, with proof and a way back",
    "switch-back": "move readers and writers back to the source, after a switch",
    "migrate": "move readers and writers to the target for good",
    "switches": "print what became of switches",
    "drill": "rehearse a switch and the way back on a canary topic",
    "gaps": "print what was ever lost, skipped, repeated or refused",
    "translate": "say where an offset, or a group, is on another cluster",
    "positions": "show where a flow stands, or put it elsewhere",
    "verify": "compare what is on the target with the source",
    "app": "serve the lag inspector, a page to look at lag",
    "prepare": "do at install what would make the first start slow",
    "clusters": "start or stop a pair of embedded Kafka clusters for development",
    "dashboards": "write the generated boards, rules and docs/metrics.md, or check that they are up to date",
    "demo": "mirror between two embedded clusters and watch it",
}
WITH_SPARK = ("run", "classic", "verify", "demo", "prepare")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code: 0 done, 1 other, 2 settings, 3 cluster, 4 stream, 5 not allowed, 6 refused."""
    parsed = parse(sys.argv[1:] if arguments is None else arguments)
    log_to_stderr(verbose=parsed.verbose)
    try:
        code: int = parsed.run(parsed)
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
    if command_in(sys.argv[1:]) in WITH_SPARK:
        leave_out_pandas()
    code = main()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options given, and as `run` what the command does.

    Only the given command is imported, so that help and mistakes are printed at once.
    """
    parser = argparse.ArgumentParser(
        prog="kafka-mirror", description="Mirror Kafka clusters, and measure it.", epilog="More: README.md and docs/."
    )
    parser.add_argument("--verbose", action="store_true", help="log details")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    given = command_in(arguments)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary)
        if name == given:
            module = importlib.import_module(f"mirror.commands.{module_of(name)}")
            module.declare(command)
            command.set_defaults(run=module.run)
    return parser.parse_args(arguments)


def command_in(arguments: Sequence[str]) -> str | None:
    """Return the command that is given, or None."""
    return next((argument for argument in arguments if argument in COMMANDS), None)


def module_of(command: str) -> str:
    """Return the name of the file of a command; one that is a word of Python has an underscore behind it."""
    name = command.replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


if __name__ == "__main__":
    entry()
