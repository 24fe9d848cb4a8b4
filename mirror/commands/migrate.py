"""Run `kafka-mirror migrate`: switch for good, without a reverse flow."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from mirror.commands.options import describe
from mirror.commands.switch import EXIT_CODES, add_switching, switch
from mirror.config.given import settings_given
from mirror.switching.run import Kind

DESCRIPTION = """\
Move consumers and producers of a flow A->B from A to B for good, like 'kafka-mirror switch', but without the reverse flow
B->A. Topics may keep their names (IdentityReplicationPolicy)."""
EXAMPLES = f"""\
examples:
  kafka-mirror migrate mirror.properties 'a->b' --dry-run
  kafka-mirror migrate mirror.properties 'a->b' --topics 'orders.*' --groups 'billing,search'
{EXIT_CODES}"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_switching(parser, Kind.MIGRATE)


def run(parsed: Namespace) -> int:
    """Migrate; return the exit code."""
    return switch(settings_given(parsed), parsed.flow, Kind.MIGRATE, parsed)
