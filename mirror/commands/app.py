"""Run `kafka-mirror app`: serve the lag inspector."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from mirror.commands.options import describe
from mirror.config.given import add_mirrors, mirror_arguments, mirrors_of
from mirror.errors import SettingsError

DESCRIPTION = """\
Serve the lag inspector: web pages that show lag by partition and consumer group, and its reasons. With several files, the first
page shows the flows of all mirrors; address and login are those of the first file. Changes nothing."""
EXAMPLES = """\
examples:
  kafka-mirror app mirror.properties
  kafka-mirror app eu.properties us.properties
  kafka-mirror app /etc/kafka-mirror                     every *.properties there
exit codes: 0 stopped, 2 settings"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_mirrors(parser)
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:8501", help="address of the pages (default %(default)s)"
    )


def run(parsed: Namespace) -> int:
    """Serve until a signal.

    Raises:
        SettingsError: the file or the address is invalid.
    """
    from app.serve import serve

    arguments = mirror_arguments(parsed)
    first, *others = mirrors_of(arguments)  # an invalid file ends the command with one line
    access = first.settings.mirror.http
    for other in others:
        if other.settings.mirror.http.has_login and not access.has_login:
            raise SettingsError(
                f"{other.file} requires a login (mirror.http.username), {first.file} does not. The pages of all files have the "
                "login of the first one: set it there, too."
            )
    host, _, port = parsed.listen.rpartition(":")
    if not host or not port.isdigit():
        raise SettingsError(f'--listen: "{parsed.listen}" is not an address. Write HOST:PORT, such as 127.0.0.1:8501.')
    serve(arguments, host, int(port), access)
