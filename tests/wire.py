"""Requests of the client as messages, for tests that stand in for brokers."""

from __future__ import annotations

from typing import Any

from kio.index import load_payload_module
from kio.static.constants import EntityType

from mirror.kafka.messages import Request

PRODUCE, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, INIT_PRODUCER_ID, TXN_OFFSET_COMMIT = 0, 24, 25, 26, 22, 28


def message_of(request: Request) -> Any:
    """Return a request in the highest version that the client speaks."""
    return request.build(load_payload_module(request.api, request.highest, EntityType.request), request.highest)


def answer_module(api: int, version: int) -> Any:
    """Return kio's module of a version's answer."""
    return load_payload_module(api, version, EntityType.response)


def request_module(api: int, version: int) -> Any:
    """Return kio's module of a version's request."""
    return load_payload_module(api, version, EntityType.request)
