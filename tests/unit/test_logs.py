"""The log: an event is a line."""

from __future__ import annotations

import subprocess
import sys

EVENTS = """
import logging
from mirror.runtime.logs import log_to_stderr
log_to_stderr()
log = logging.getLogger("mirror")
log.warning("group %s is left out", "a\\n2026-01-01 00:00:00,000 ERROR   made up\\x1b[2J")
try:
    raise ValueError("of two\\nlines")
except ValueError:
    log.exception("failed")
"""


def test_a_name_of_several_lines_adds_no_log_event():
    done = subprocess.run([sys.executable, "-c", EVENTS], capture_output=True, text=True, check=True)
    first, second, *traceback = done.stderr.splitlines()
    assert first.endswith(r"WARNING group a\n2026-01-01 00:00:00,000 ERROR   made up\x1b[2J is left out")
    assert second.endswith("ERROR   failed")
    assert traceback[0] == "Traceback (most recent call last):"


HUNG_UP = """
from mirror.runtime.logs import hang_up_quietly
hang_up_quietly()
try:
    raise EOFError
except EOFError:
    raise {}
"""


def test_a_runner_logs_every_failure_except_a_closed_connection():
    """What Spark's runner of a stream reader does when the JVM has gone: the end of its input, then a broken pipe."""
    shown = {
        error: subprocess.run(
            [sys.executable, "-c", HUNG_UP.format(error)], capture_output=True, text=True, check=False
        )
        for error in ("BrokenPipeError", "OSError")
    }
    assert {error: done.returncode for error, done in shown.items()} == {"BrokenPipeError": 1, "OSError": 1}
    assert shown["BrokenPipeError"].stderr == ""
    assert shown["OSError"].stderr.endswith("OSError\n")


GONE = """
import logging, socket, threading
from py4j.java_gateway import GatewayClient
from mirror.runtime.logs import log_to_stderr
log_to_stderr()
server = socket.create_server(("127.0.0.1", 0))
def refuse():
    while True:  # py4j tries again where it had not sent all yet
        server.accept()[0].close()
threading.Thread(target=refuse, daemon=True).start()
GatewayClient(port=server.getsockname()[1]).send_command("m\\nd\\no1\\ne\\n")
logging.getLogger("mirror").info("the end")
"""


def test_a_jvm_that_ends_before_its_objects_are_released_logs_nothing():
    done = subprocess.run([sys.executable, "-c", GONE], capture_output=True, text=True, check=True)
    assert done.stderr.endswith("INFO    the end\n")
    assert len(done.stderr.splitlines()) == 1


OF_A_JOURNAL = """
import os
found = os.fstat(2)
os.environ["JOURNAL_STREAM"] = f"{found.st_dev}:{found.st_ino}"
"""


def test_the_journal_gets_a_priority_and_no_time():
    done = subprocess.run([sys.executable, "-c", OF_A_JOURNAL + EVENTS], capture_output=True, text=True, check=True)
    first, second, *_ = done.stderr.splitlines()
    assert first.startswith("<4>group a")
    assert second == "<3>failed"
