"""Why a target refuses a batch for what is in it, and what its owner can do."""

from __future__ import annotations

from aiokafka import errors as kafka_errors


class UnsupportedCompressionTypeError(kafka_errors.BrokerResponseError):  # type: ignore[misc]  # aiokafka has no types
    """The topic's format, or the broker's version, does not know the codec."""

    errno = 76
    message = "UNSUPPORTED_COMPRESSION_TYPE"


class InvalidRecordError(kafka_errors.BrokerResponseError):  # type: ignore[misc]  # aiokafka has no types
    """Most often a record without a key, for a topic that is compacted."""

    errno = 87
    message = "INVALID_RECORD"


# aiokafka calls both UnknownError
kafka_errors.kafka_errors |= {error.errno: error for error in (UnsupportedCompressionTypeError, InvalidRecordError)}

_TOO_LARGE = (kafka_errors.MessageSizeTooLargeError, kafka_errors.RecordListTooLargeError)
_OF_ONE_RECORD = (*_TOO_LARGE, kafka_errors.InvalidTimestampError, InvalidRecordError)
_ADVICE: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    (_TOO_LARGE, "Raise its max.message.bytes"),
    (
        (kafka_errors.InvalidTimestampError,),
        "Widen its message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    ),
    ((InvalidRecordError,), "Where it is compacted it takes no record without a key: change its cleanup.policy"),
    ((kafka_errors.TopicAuthorizationFailedError,), "Allow this client to WRITE to it"),
)


_OF_PRODUCERS = (
    kafka_errors.OutOfOrderSequenceNumber,
    kafka_errors.ProducerFenced,
    kafka_errors.InvalidProducerEpoch,
    kafka_errors.InvalidProducerIdMapping,
    kafka_errors.UnknownProducerId,
)
_FEW_REPLICAS = (kafka_errors.NotEnoughReplicasError, kafka_errors.NotEnoughReplicasAfterAppendError)
_STANDSTILLS: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((kafka_errors.LeaderNotAvailableError, kafka_errors.NotLeaderForPartitionError), "no leader"),
    (_FEW_REPLICAS, "fewer in-sync replicas than its min.insync.replicas"),
    ((kafka_errors.NodeNotReadyError, kafka_errors.KafkaConnectionError), "no connection to its leader"),
    ((kafka_errors.RequestTimedOutError, TimeoutError), "its replicas do not answer in time"),
)


def standstill(error: BaseException) -> str:
    """Return why the target appends nothing to a topic-partition for now."""
    words = next((words for errors, words in _STANDSTILLS if isinstance(error, errors)), "")
    return words or type(error).__name__


def knows_no_such_producer(error: BaseException | None) -> bool:
    """Tell whether the target does not take anything more that this producer sends."""
    return isinstance(error, _OF_PRODUCERS)


def has_too_few_replicas(error: BaseException) -> bool:
    """Tell whether a topic-partition has a leader, and too few replicas in sync to take a batch."""
    return isinstance(error, _FEW_REPLICAS)


def is_absent(error: BaseException) -> bool:
    """Tell whether the target knows no such topic-partition."""
    return isinstance(error, kafka_errors.UnknownTopicOrPartitionError)


def may_be_of_one_record(error: BaseException | None) -> bool:
    """Tell whether a batch may be refused for one record that is in it, so that the others go without it."""
    return isinstance(error, _OF_ONE_RECORD)


def refusal(error: BaseException | None) -> str:
    """Return what the target objects to, and what to do about it where that is known."""
    advice = next((advice for errors, advice in _ADVICE if isinstance(error, errors)), "")
    return f"{type(error).__name__}. {advice}." if advice else type(error).__name__
