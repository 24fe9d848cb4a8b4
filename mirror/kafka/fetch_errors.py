"""Say what a broker's error in answer to a fetch means for the topic-partition."""

from __future__ import annotations

from enum import Enum, auto

from aiokafka import errors as kafka_errors

_SILENCES = (kafka_errors.KafkaConnectionError, kafka_errors.RequestTimedOutError, kafka_errors.NodeNotReadyError)


class FetchError(Enum):
    """What is to be done about a topic-partition that a broker does not let be read."""

    OUT_OF_RANGE = auto()  # compare its position with the log's bounds
    UNKNOWN_TOPIC = auto()  # ask whether its topic is still the same
    PASSING = auto()  # ask for metadata, and try again
    REFUSED = auto()  # pause it


def fetch_error(code: int) -> tuple[FetchError, str]:
    """Return what an error code means, and the error's name."""
    error = kafka_errors.for_code(code)
    if error is kafka_errors.OffsetOutOfRangeError:
        return FetchError.OUT_OF_RANGE, error.__name__
    if error is kafka_errors.UnknownTopicOrPartitionError:
        return FetchError.UNKNOWN_TOPIC, error.__name__
    if getattr(error, "invalid_metadata", False) or error.retriable:
        return FetchError.PASSING, error.__name__
    return FetchError.REFUSED, error.__name__


def is_silence(error: type[BaseException]) -> bool:
    """Tell whether an error means that a broker did not answer."""
    return issubclass(error, _SILENCES)
