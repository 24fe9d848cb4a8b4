"""Name the right that a principal lacks, given a broker's authorization error."""

from __future__ import annotations

from mirror.errors import ClusterRefuses
from mirror.kafka.errors import BrokerError, ErrorCode

_RIGHTS = {
    ErrorCode.topic_authorization_failed: "DESCRIBE on the topic, and READ or WRITE",
    ErrorCode.group_authorization_failed: "READ and DESCRIBE on the group",
    ErrorCode.cluster_authorization_failed: "DESCRIBE on the cluster",
    ErrorCode.transactional_id_authorization_failed: "WRITE and DESCRIBE on the transactional id",
}


def lacks_right(code: int) -> bool:
    """Return whether an error code, of Kafka or of librdkafka, means a missing right."""
    return code in _RIGHTS


def refused(where: str, reason: str, code: int, *, cluster: str, right: str = "") -> ClusterRefuses:
    """Return the error that names the missing right.

    Args:
        where: The refused call and its cluster.
        reason: The broker's message.
        code: An error for which `lacks_right` is true.
        cluster: The cluster's alias.
        right: The right, if the caller knows it more exactly than the code shows.
    """
    grant = right or _RIGHTS[ErrorCode(code)]
    return ClusterRefuses(f"{where}: not authorized ({reason}). Grant this client {grant}.", cluster=cluster)


def refusal_of(error: BaseException, where: str, *, cluster: str, right: str = "") -> ClusterRefuses | None:
    """Return an error that names the missing right, None for other errors of mirror.kafka.client."""
    if isinstance(error, BrokerError) and lacks_right(error.code):
        return refused(where, str(error), error.code, cluster=cluster, right=right)
    return None
