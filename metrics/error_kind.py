"""Name the kinds of reasons why a partition is paused. Programs use the kind, because texts may change."""

from __future__ import annotations

from enum import StrEnum


class ErrorKind(StrEnum):
    """Why a partition is paused. The values are those of `/errors`."""

    OTHER = "other"
    RECORD_TOO_LARGE = "record_too_large"  # the target's max.message.bytes is smaller
    SOURCE_NOT_AUTHORIZED = "source_not_authorized"
    TARGET_NOT_AUTHORIZED = "target_not_authorized"
    TARGET_UNAVAILABLE = "target_unavailable"  # no leader, or too few in-sync replicas
    POSITION_REQUIRED = "position_required"  # a topic was recreated: an operator must set the position
    PAUSED_BY_OPERATOR = "paused_by_operator"
    OFFSETS_DIFFER = "offsets_differ"  # of a topic that requires identical offsets
