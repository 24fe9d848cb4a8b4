"""What a cluster refuses, and why it cannot be asked."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as ErrorCode

# After these, what is known of leaders and brokers is old.
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
    """Anything that keeps a cluster from doing what it is asked for.

    Attributes:
        is_retriable: The same request may succeed later.
        has_stale_metadata: Leaders may have moved: ask for metadata first.
    """

    is_retriable = False
    has_stale_metadata = False


class BrokerError(KafkaError):
    """The error code of a broker's answer, and what it is about."""

    def __init__(self, code: ErrorCode, what: str = "") -> None:
        super().__init__(f"{what}: {name_of(code)}" if what else name_of(code))
        self.code = code

    @property
    def is_retriable(self) -> bool:  # type: ignore[override]
        """True where Kafka's protocol calls the code retriable."""
        return self.code.retriable

    @property
    def has_stale_metadata(self) -> bool:  # type: ignore[override]
        """True where leaders or topics have changed."""
        return self.code in _STALE_METADATA


class NotConnectedError(KafkaError):
    """There is no connection to a broker: nothing was sent."""

    is_retriable = True
    has_stale_metadata = True


class DisconnectedError(KafkaError):
    """A connection ended before its broker answered."""

    is_retriable = True
    has_stale_metadata = True


class NoAnswerError(KafkaError):
    """A broker does not answer in time; its connection is closed."""

    is_retriable = True
    has_stale_metadata = True


class LoginError(NotConnectedError):
    """A broker refuses the login."""


class UnsupportedError(KafkaError):
    """A broker is too old, or too new, for a request."""


class MalformedError(KafkaError):
    """A broker's answer cannot be read."""


SILENCES = (NotConnectedError, DisconnectedError, NoAnswerError)  # a broker that does not answer


def name_of(code: ErrorCode) -> str:
    """Return a code's name as Kafka's documentation writes it."""
    return code.name.upper()


def check(code: ErrorCode, what: str) -> None:
    """Raise BrokerError where a code is an error."""
    if code is not ErrorCode.none:
        raise BrokerError(code, what)


def is_code(error: BaseException | None, *codes: ErrorCode) -> bool:
    """Tell whether an error is a broker's, with one of these codes."""
    return isinstance(error, BrokerError) and error.code in codes
