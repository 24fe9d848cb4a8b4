"""The request for a group's offsets that waits for transactions: of what is written and not decided yet it tells nothing else.

aiokafka has versions up to 3 of it; version 7 (Kafka 2.5, KIP-447) has require_stable.
"""

from __future__ import annotations

from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetFetchRequest_v3
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

NO_TAGS: dict[int, bytes] = {}


class UnstableOffsetCommitError(kafka_errors.BrokerResponseError):  # type: ignore[misc]  # aiokafka has no types
    """A transaction has offsets of the group and is not ended yet."""

    errno = 88
    message = "UNSTABLE_OFFSET_COMMIT"
    retriable = True


kafka_errors.kafka_errors[UnstableOffsetCommitError.errno] = UnstableOffsetCommitError


class _ResponseV7(Response):  # type: ignore[misc]
    API_KEY = 9
    API_VERSION = 7
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", CompactString("utf-8")),
                        ("error_code", Int16),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("error_code", Int16),
        ("tags", TaggedFields),
    )


class _RequestV7(RequestStruct):  # type: ignore[misc]
    API_KEY = 9
    API_VERSION = 7
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _ResponseV7
    SCHEMA = Schema(
        ("consumer_group", CompactString("utf-8")),
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")), ("partitions", CompactArray(Int32)), ("tags", TaggedFields)
            ),
        ),
        ("require_stable", Boolean),
        ("tags", TaggedFields),
    )


class StableOffsetFetch(Request[OffsetFetchRequest_v3 | _RequestV7]):  # type: ignore[misc]
    """Asks for the offsets of a group, of all its topic-partitions where `places` is None."""

    API_KEY = 9

    def __init__(self, group: str, places: list[tuple[str, list[int]]] | None) -> None:
        self._group = group
        self._places = places

    def build(self, request_struct_class: Any) -> Any:
        """Return the request in the version that the broker speaks; before 2.5 none can wait."""
        if request_struct_class is OffsetFetchRequest_v3:
            return request_struct_class(self._group, self._places)
        places = None if self._places is None else [(topic, parts, NO_TAGS) for topic, parts in self._places]
        return request_struct_class(self._group, places, True, NO_TAGS)
