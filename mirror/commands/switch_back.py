"""Run `kafka-mirror switch-back`: return to the source after a switch."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from mirror.commands.options import describe
from mirror.commands.switch import EXIT_CODES, add_switching, switch
from mirror.config.given import settings_given
from mirror.errors import SettingsError
from mirror.switching.run import Kind

DESCRIPTION = """\
Move consumers and producers back from B to A after 'kafka-mirror switch FILE A->B', in the same steps along B->A. The steps fence
B's producers and wait until A has every record written on B. Then they move the groups to their exact offsets on A (also in the
topics that came from A), resume A->B, and remove the fence on A. If the source was lost, the step tail exports the records that
never reached B."""
EXAMPLES = f"""\
examples:
  kafka-mirror switch-back mirror.properties 'a->b' --dry-run
  kafka-mirror switch-back mirror.properties 'a->b' --yes
{EXIT_CODES}"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_switching(parser, Kind.SWITCH_BACK)


def run(parsed: Namespace) -> int:
    """Switch back; return the exit code."""
    source, arrow, target = parsed.flow.partition("->")
    if not arrow:
        raise SettingsError(f'switch-back: "{parsed.flow}" is not a flow. Write A->B, as in the command of the switch.')
    return switch(settings_given(parsed), f"{target}->{source}", Kind.SWITCH_BACK, parsed)
