"""`kafka-mirror switch-back`: undo a switch, when its source is to serve again."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from mirror.commands.options import describe
from mirror.commands.switch import add_switching, switch
from mirror.config.given import settings_given
from mirror.errors import SettingsError
from mirror.switching.run import Kind

DESCRIPTION = """\
Move readers and writers back from B to A after 'kafka-mirror switch FILE A->B': the same steps along B->A. What was written on B
meanwhile is on A by then, groups go on where they stand (also in the topics that came from A), A->B replicates again, and the
fence on A is taken away."""
EXAMPLES = """\
examples:
  kafka-mirror switch-back mirror.properties 'a->b' --dry-run
  kafka-mirror switch-back mirror.properties 'a->b' --yes
exit codes: as of switch"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_switching(parser)


def run(parsed: Namespace) -> int:
    """Switch back; return the exit code."""
    source, arrow, target = parsed.flow.partition("->")
    if not arrow:
        raise SettingsError(f'switch-back: "{parsed.flow}" is no flow. Write A->B, as the switch was called.')
    return switch(settings_given(parsed), f"{target}->{source}", Kind.SWITCH_BACK, parsed)
