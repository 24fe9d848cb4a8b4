"""Why a target refuses a batch for what is in it, and what its owner can do."""

from __future__ import annotations

from mirror.kafka.errors import SILENCES, BrokerError, ErrorCode, is_code, name_of

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
        "Where it is compacted it takes no record without a key: change its cleanup.policy",
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
    ((ErrorCode.request_timed_out,), "its replicas do not answer in time"),
)


def standstill(error: BaseException) -> str:
    """Return why the target appends nothing to a topic-partition for now."""
    if isinstance(error, SILENCES):
        return "no connection to its leader"
    words = next((words for codes, words in _STANDSTILLS if is_code(error, *codes)), "")
    return words or _name(error)


def knows_no_such_producer(error: BaseException | None) -> bool:
    """Tell whether the target does not take anything more that this producer sends."""
    return is_code(error, *_OF_PRODUCERS)


def has_too_few_replicas(error: BaseException) -> bool:
    """Tell whether a topic-partition has a leader, and too few replicas in sync to take a batch."""
    return is_code(error, *_FEW_REPLICAS)


def is_absent(error: BaseException) -> bool:
    """Tell whether the target knows no such topic-partition."""
    return is_code(error, ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id)


def may_be_of_one_record(error: BaseException | None) -> bool:
    """Tell whether a batch may be refused for one record that is in it, so that the others go without it."""
    return is_code(error, *_OF_ONE_RECORD)


def refusal(error: BaseException | None) -> str:
    """Return what the target objects to, and what to do about it where that is known."""
    advice = next((advice for codes, advice in _ADVICE if is_code(error, *codes)), "")
    return f"{_name(error)}. {advice}." if advice else _name(error)


def _name(error: BaseException | None) -> str:
    return name_of(error.code) if isinstance(error, BrokerError) else type(error).__name__
