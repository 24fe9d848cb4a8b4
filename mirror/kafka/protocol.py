"""API keys and constants of the wire protocol: https://kafka.apache.org/protocol."""

from __future__ import annotations

from enum import IntEnum


class ApiKey(IntEnum):
    """The APIs that kafka-mirror calls."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    DESCRIBE_QUORUM = 55
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_DESCRIBE = 69


CONSUMER, DEBUGGER = -1, -2  # replica ids of clients; to a debugger, a broker shows its whole log
EARLIEST, LATEST = -2, -1  # special timestamps in offset requests
NO_OFFSET = -1  # an offset that the broker does not know
NO_NODE = -1
COORDINATOR_S = 2.0  # a process that cannot confirm for 4 s that it owns a slot counts as dead
