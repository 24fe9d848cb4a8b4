"""Classify the errors of a cluster: refusals, and reasons why it cannot be reached."""

from __future__ import annotations

from enum import Enum, auto

from kio.schema.errors import ErrorCode as ErrorCode

from metrics.error_kind import ErrorKind

# After these errors, the known leaders and brokers are outdated.
_STALE_METADATA = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.replica_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.listener_not_found,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
    }
)


class KafkaError(Exception):
    """Base class of all errors of requests to a cluster.

    Attributes:
        is_retriable: The same request may succeed later.
        has_stale_metadata: Leaders may have moved: request metadata first.
    """

    is_retriable = False
    has_stale_metadata = False


class BrokerError(KafkaError):
    """The error code in a broker's response, with its subject."""

    def __init__(self, code: ErrorCode, what: str = "") -> None:
        super().__init__(f"{what}: {name_of(code)}" if what else name_of(code))
        self.code = code

    @property
    def is_retriable(self) -> bool:  # type: ignore[override]
        """True if Kafka's protocol defines the code as retriable."""
        return self.code.retriable

    @property
    def has_stale_metadata(self) -> bool:  # type: ignore[override]
        """True if leaders or topics have changed."""
        return self.code in _STALE_METADATA


class NotConnectedError(KafkaError):
    """There is no connection to a broker: nothing was sent."""

    is_retriable = True
    has_stale_metadata = True


class DisconnectedError(KafkaError):
    """A connection was closed before its broker responded."""

    is_retriable = True
    has_stale_metadata = True


class NoAnswerError(KafkaError):
    """A broker does not respond in time; its connection is closed."""

    is_retriable = True
    has_stale_metadata = True


class LoginError(NotConnectedError):
    """A broker refuses the login."""


class UnsupportedError(KafkaError):
    """A broker is too old, or too new, for a request."""


class MalformedError(KafkaError):
    """A broker's response cannot be read."""


SILENCES = (NotConnectedError, DisconnectedError, NoAnswerError)  # a broker did not respond


def name_of(code: ErrorCode) -> str:
    """Return the name of a code as Kafka's documentation writes it."""
    return code.name.upper()


def check(code: ErrorCode, what: str) -> None:
    """Raise BrokerError if a code is an error."""
    if code is not ErrorCode.none:
        raise BrokerError(code, what)


def is_code(error: BaseException | None, *codes: ErrorCode) -> bool:
    """Return whether an error is a broker's error with one of these codes."""
    return isinstance(error, BrokerError) and error.code in codes


_UNKNOWN_TOPIC = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
    ErrorCode.inconsistent_topic_id,
)


class FetchError(Enum):
    """What to do with a partition that a broker refuses to read."""

    OUT_OF_RANGE = auto()  # compare its position with the bounds of its log
    UNKNOWN_TOPIC = auto()  # check whether its topic is still the same
    PASSING = auto()  # refresh the metadata, and retry
    REFUSED = auto()  # pause it


def fetch_error(code: ErrorCode) -> FetchError:
    """Return what to do after an error code."""
    if code is ErrorCode.offset_out_of_range:
        return FetchError.OUT_OF_RANGE
    if code in _UNKNOWN_TOPIC:
        return FetchError.UNKNOWN_TOPIC
    error = BrokerError(code)
    if error.has_stale_metadata or (error.is_retriable and code is not ErrorCode.corrupt_message):
        return FetchError.PASSING
    return FetchError.REFUSED


_TOO_LARGE = (ErrorCode.message_too_large, ErrorCode.record_list_too_large)
_OF_ONE_RECORD = (*_TOO_LARGE, ErrorCode.invalid_timestamp, ErrorCode.invalid_record)
_ADVICE: tuple[tuple[tuple[ErrorCode, ...], str], ...] = (
    (_TOO_LARGE, "Raise its max.message.bytes"),
    (
        (ErrorCode.invalid_timestamp,),
        "Widen its message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    ),
    (
        (ErrorCode.invalid_record,),
        "A compacted topic accepts no record without a key: change its cleanup.policy",
    ),
    ((ErrorCode.topic_authorization_failed,), "Allow this client to WRITE to it"),
)
_OF_PRODUCERS = (
    ErrorCode.out_of_order_sequence_number,
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.invalid_producer_id_mapping,
    ErrorCode.unknown_producer_id,
)
_FEW_REPLICAS = (ErrorCode.not_enough_replicas, ErrorCode.not_enough_replicas_after_append)
_STANDSTILLS: tuple[tuple[tuple[ErrorCode, ...], str], ...] = (
    ((ErrorCode.leader_not_available, ErrorCode.not_leader_or_follower), "no leader"),
    (_FEW_REPLICAS, "fewer in-sync replicas than its min.insync.replicas"),
    ((ErrorCode.request_timed_out,), "its replicas do not respond in time"),
)


def standstill(error: BaseException) -> str:
    """Return why the target appends nothing to a partition for now."""
    if isinstance(error, SILENCES):
        return "no connection to its leader"
    words = next((words for codes, words in _STANDSTILLS if is_code(error, *codes)), "")
    return words or _name(error)


def knows_no_such_producer(error: BaseException | None) -> bool:
    """Return whether the target refuses everything from this producer."""
    return is_code(error, *_OF_PRODUCERS)


def has_too_few_replicas(error: BaseException) -> bool:
    """Return whether a partition has a leader but too few in-sync replicas."""
    return is_code(error, *_FEW_REPLICAS)


def is_absent(error: BaseException) -> bool:
    """Return whether the target has no such partition."""
    return is_code(error, ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)


def may_be_of_one_record(error: BaseException | None) -> bool:
    """Return whether a single record may be the reason for a batch's refusal.

    If so, the other records are sent without it.
    """
    return is_code(error, *_OF_ONE_RECORD)


def refusal(error: BaseException | None) -> str:
    """Return the target's objection, with advice if there is any."""
    advice = next((advice for codes, advice in _ADVICE if is_code(error, *codes)), "")
    return f"{_name(error)}. {advice}." if advice else _name(error)


def target_error_kind(error: BaseException | None) -> ErrorKind:
    """Return the kind of the target's objection."""
    if is_code(error, *_TOO_LARGE):
        return ErrorKind.RECORD_TOO_LARGE
    if is_code(error, ErrorCode.topic_authorization_failed):
        return ErrorKind.TARGET_NOT_AUTHORIZED
    return ErrorKind.OTHER


def source_error_kind(code: ErrorCode) -> ErrorKind:
    """Return the kind of an error code with which the source refuses a fetch."""
    return ErrorKind.SOURCE_NOT_AUTHORIZED if code is ErrorCode.topic_authorization_failed else ErrorKind.OTHER


def _name(error: BaseException | None) -> str:
    return name_of(error.code) if isinstance(error, BrokerError) else type(error).__name__
