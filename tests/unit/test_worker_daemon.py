"""What a worker process says at its end."""

from __future__ import annotations

import pytest

from mirror.spark.worker_daemon import Tracebacks


@pytest.mark.parametrize(("error", "is_told"), [(BrokenPipeError("gone"), False), (ValueError("a slip"), True)])
def test_errors_of_a_closed_socket_are_not_logged(capsys, error, is_told):
    try:
        raise error
    except (BrokenPipeError, ValueError):
        Tracebacks.print_exc()
    assert ("a slip" in capsys.readouterr().err) is is_told
