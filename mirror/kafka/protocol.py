"""Names and bounds that all clients of the wire protocol share."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, TypeAlias

from aiokafka import errors as kafka_errors

log = logging.getLogger("mirror")

KafkaError: TypeAlias = kafka_errors.KafkaError
EARLIEST, LATEST = -2, -1  # what stands for a time where an offset is asked for
COORDINATOR_S = 2.0  # others take a process for dead that cannot confirm for 4 s that a slot is its own


def log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log errors that nobody waited for. aiokafka fails a future of its own with each failed batch: those are logged at DEBUG."""
    if isinstance(context.get("exception"), kafka_errors.KafkaError):
        log.debug("%s: %r", context.get("message"), context["exception"])
    else:
        loop.default_exception_handler(context)
