"""Run `kafka-mirror app`: serve the lag inspector."""

from __future__ import annotations

import signal
import socket
from argparse import ArgumentParser, Namespace
from contextlib import suppress

from mirror.commands.options import describe
from mirror.config.given import add_mirrors, mirrors_of
from mirror.config.properties import Entry
from mirror.config.values import host_port
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
        MirrorError: Streamlit does not start.
    """
    from app.serve import serve  # Streamlit is loaded by this command only

    mirrors = mirrors_of(parsed)
    first, *others = mirrors
    access = first.settings.mirror.http
    for other in others:
        if other.settings.mirror.http.has_login and not access.has_login:
            raise SettingsError(
                f"{other.file} requires a login (mirror.http.username), {first.file} does not. The pages of all files have the "
                "login of the first one: set it there, too."
            )
    listener = _listening(parsed.listen)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):  # after the server has handled a signal, it raises the signal again
        serve(mirrors, listener, access)
    return 0


def _listening(address: str) -> socket.socket:
    host, port = host_port(Entry(key="--listen", value=address, where="option"))
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    # Connections of an earlier process may still be closing.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"cannot listen on {address} ({error.strerror}); set --listen to another address"
        ) from error
    return listener
