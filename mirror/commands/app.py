"""`kafka-mirror app`: serve the lag inspector."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from mirror.commands.options import describe
from mirror.config.given import add_mirror, mirror_arguments, settings_given
from mirror.errors import SettingsError

DESCRIPTION = "Serve the lag inspector, pages that show lag by partition and consumer group, and why. Reads only."
EXAMPLES = "exit codes: 0 stopped, 2 settings"


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_mirror(parser)
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:8501", help="address of the pages (default %(default)s)"
    )


def run(parsed: Namespace) -> int:
    """Serve until a signal.

    Raises:
        SettingsError: the file or the address is no good.
    """
    from app.serve import serve

    access = settings_given(parsed).mirror.http  # refuses a bad file in one line
    host, _, port = parsed.listen.rpartition(":")
    if not host or not port.isdigit():
        raise SettingsError(f'--listen: "{parsed.listen}" is no address. Write HOST:PORT, such as 127.0.0.1:8501.')
    serve(mirror_arguments(parsed), host, int(port), access)
