"""The log: an event is a line."""

from __future__ import annotations

import subprocess
import sys

EVENTS = """
import logging
from mirror.logs import log_to_stderr
log_to_stderr()
log = logging.getLogger("mirror")
log.warning("group %s is left out", "a\\n2026-01-01 00:00:00,000 ERROR   made up\\x1b[2J")
try:
    raise ValueError("of two\\nlines")
except ValueError:
    log.exception("failed")
"""


def test_a_name_of_several_lines_makes_no_event_of_its_own():
    done = subprocess.run([sys.executable, "-c", EVENTS], capture_output=True, text=True, check=True)
    first, second, *traceback = done.stderr.splitlines()
    assert first.endswith(r"WARNING group a\n2026-01-01 00:00:00,000 ERROR   made up\x1b[2J is left out")
    assert second.endswith("ERROR   failed")
    assert traceback[0] == "Traceback (most recent call last):"
