"""Say what a broker's error in answer to a fetch means for the topic-partition."""

from __future__ import annotations

from enum import Enum, auto

from mirror.kafka.errors import BrokerError, ErrorCode

_UNKNOWN_TOPIC = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
    ErrorCode.inconsistent_topic_id,
)


class FetchError(Enum):
    """What is to be done about a topic-partition that a broker does not let be read."""

    OUT_OF_RANGE = auto()  # compare its position with the log's bounds
    UNKNOWN_TOPIC = auto()  # ask whether its topic is still the same
    PASSING = auto()  # ask for metadata, and try again
    REFUSED = auto()  # pause it


def fetch_error(code: ErrorCode) -> FetchError:
    """Return what an error code means."""
    if code is ErrorCode.offset_out_of_range:
        return FetchError.OUT_OF_RANGE
    if code in _UNKNOWN_TOPIC:
        return FetchError.UNKNOWN_TOPIC
    error = BrokerError(code)
    if error.has_stale_metadata or (error.is_retriable and code is not ErrorCode.corrupt_message):
        return FetchError.PASSING
    return FetchError.REFUSED
