"""Run `kafka-mirror run`: replicate the flows of a file until a signal."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from mirror.commands.options import EXITS_OF_A_MIRROR, add_file, add_own_settings, add_targets, describe, load_to_run

DESCRIPTION = """\
Replicate every enabled flow of FILE (a connect-mirror-maker.properties, as for MirrorMaker 2) until Ctrl-C or
SIGTERM. Positions are kept on the target cluster, so a start resumes where the last run ended."""
EXAMPLES = f"""\
examples:
  kafka-mirror run mirror.properties
  kafka-mirror run mirror.properties --clusters backup                     only flows into this cluster
  kafka-mirror run mirror.properties --metrics-listen 0.0.0.0:9404 --slots 4
signals: SIGTERM and SIGINT commit every position and stop; SIGHUP looks for topics, settings and ACLs at once
{EXITS_OF_A_MIRROR}"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_file(parser, "a connect-mirror-maker.properties")
    add_targets(parser)
    add_own_settings(parser)


def run(parsed: Namespace) -> int:
    """Replicate until a signal; return the exit code."""
    from mirror.appliance import Appliance

    Appliance(load_to_run(parsed)).run()
    return 0
