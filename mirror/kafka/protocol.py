"""Bounds that all clients of the wire protocol share."""

from __future__ import annotations

CONSUMER, DEBUGGER = -1, -2  # replica ids of clients: to the latter a broker shows all of its log
EARLIEST, LATEST = -2, -1  # what stands for a time where an offset is asked for
NO_OFFSET = -1  # what brokers say instead of an offset where they know none
NO_NODE = -1
COORDINATOR_S = 2.0  # others take a process for dead that cannot confirm for 4 s that a slot is its own
