"""What the control plane tells of a cluster that does not let it in. Asks no broker."""

from __future__ import annotations

import re
import weakref
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from mirror.errors import ClusterRefuses, ClusterUnavailable
from mirror.kafka.clients import Clients
from mirror.kafka.cluster import Cluster
from mirror.kafka.errors import BrokerError, ErrorCode
from mirror.kafka.internal_topics import answered
from mirror.kafka.messages import answers as answer_kinds
from mirror.kafka.messages import make
from mirror.kafka.protocol import ApiKey
from mirror.model.topic_partition import TopicPartition
from tests.token_endpoint import TokenEndpoint
from tests.unit.fake_broker import BrokerInAThread
from tests.waiting import eventually

OFFSET_COMMIT = ApiKey.OFFSET_COMMIT
NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


def oauth(url: str, secret: str) -> dict[str, str]:
    return NOBODY | {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        f'clientId="me" clientSecret="{secret}";',
        "sasl.oauthbearer.token.endpoint.url": url,
    }


def test_without_a_token_a_cluster_is_unavailable_at_once_with_the_reason():
    with TokenEndpoint("me", "hunter2") as endpoint:
        admin = Cluster("primary", oauth(endpoint.url, "hunter3"))
        for call in (admin.topics, admin.cluster_id):
            with pytest.raises(
                ClusterUnavailable, match=r"^cluster primary \(127\.0\.0\.1:1\): no answer .*status 401"
            ) as refused:
                call()
            assert refused.value.cluster == "primary"
            assert "hunter" not in str(refused.value)
        assert len(endpoint.asked) == 1


@pytest.mark.parametrize(
    ("found", "refused"),
    [
        (
            "ssl://h:1/bootstrap: SSL handshake failed: error:0A:SSL routines::certificate verify failed: broker certificate "
            "could not be verified, verify that ssl.ca.location is correctly configured or root CA certificates are "
            "installed (install ca-certificates package) (after 3ms in state SSL_HANDSHAKE)",
            "SSL handshake failed: error:0A:SSL routines::certificate verify failed: broker certificate could not be verified",
        ),
        (
            "sasl_ssl://[::1]:1/1: SASL authentication error: Authentication failed (after 310ms in state AUTH_REQ)",
            "SASL authentication error: Authentication failed",
        ),
    ],
)
def test_a_tls_or_login_error_is_reported_once_without_address_and_time(found, refused):
    clients = Clients("primary", NOBODY)
    timeout = KafkaException(KafkaError(KafkaError._TIMED_OUT, "Timed out"))
    clients.met(KafkaError(KafkaError._TRANSPORT, "h:1: down"))
    clients.met(KafkaError(KafkaError._SSL, found))
    assert f"no answer (Timed out; {refused}). Check the certificates" in str(clients.unavailable(timeout))
    assert re.search(r"no answer \(Timed out\)\. Is it up", str(clients.unavailable(timeout)))


@pytest.mark.parametrize(
    ("code", "right", "grant"),
    [
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "", "READ and DESCRIBE on the group"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "DESCRIBE on the group g", "DESCRIBE on the group g"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "", "DESCRIBE on the topic, and READ or WRITE"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "", "DESCRIBE on the cluster"),
    ],
)
def test_a_right_that_is_lacking_is_a_refusal_which_names_it(code, right, grant):
    """The cluster responds, so neither waiting nor a look at its address helps."""
    error = Clients("B", NOBODY).unavailable(KafkaException(KafkaError(code, "denied")), right=right)
    assert isinstance(error, ClusterRefuses)
    assert str(error) == f"cluster B (127.0.0.1:1): not authorized (denied). Grant this client {grant}."
    assert (error.cluster, error.retriable, error.exit_code) == ("B", False, 6)


def test_a_right_that_our_own_client_lacks_is_a_refusal_too():
    async def question():
        raise BrokerError(ErrorCode.group_authorization_failed, "mirror.A->B")

    with pytest.raises(
        ClusterRefuses, match=r"cluster B: no positions: not authorized \(mirror\.A->B: GROUP_AUTHORIZATION"
    ):
        answered(question(), cluster="B", what="no positions")


def test_a_cluster_that_was_silent_for_long_is_asked_by_new_clients(monkeypatch):
    """librdkafka's may have lost every broker for good; that of the last time lives on for who still waits for its answer."""
    now_s = [1000.0]
    monkeypatch.setattr("mirror.kafka.clients.time.monotonic", lambda: now_s[0])
    clients = Clients("primary", NOBODY)
    first = weakref.ref(clients.admin)
    silence = KafkaException(KafkaError(KafkaError._TRANSPORT))
    clients.unavailable(silence)
    assert clients.admin is first(), "it is new itself"
    now_s[0] += 31.0
    clients.unavailable(KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)))
    assert clients.admin is first(), "it was answered"
    clients.unavailable(silence)
    second = clients.admin
    assert second is not first()
    assert first() is not None, "another thread may wait for it"
    clients.unavailable(silence)
    assert clients.admin is second, "not with every answer that fails"


def test_a_time_out_is_reported_with_the_error_of_the_connection():
    """librdkafka tells a call of a time-out only."""
    clients = Clients("primary", {"bootstrap.servers": "h:1"})
    timed_out = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    suppressed = "(after 2ms in state CONNECT, 3 identical error(s) suppressed)"
    met = f"h:1/bootstrap: Failed to resolve 'h:1': Name or service not known {suppressed}"
    clients.met(KafkaError(KafkaError._RESOLVE, met))
    assert "no answer (Failed to resolve 'h:1': Name or service not known). Is it" in str(
        clients.unavailable(timed_out)
    )
    said = "[thrd:h:1/bootstrap]: h:1/bootstrap: Disconnected: connection reset by peer (after 7ms in state APIVERSION_QUERY)"
    clients._logger.warning("%s", said)
    assert "(h:1 closes the connection before it responds: do security.protocol and the port fit" in str(
        clients.unavailable(timed_out)
    )
    assert "(Timed out)" in str(clients.unavailable(timed_out)) or "Local: Timed out" in str(
        clients.unavailable(timed_out)
    )


def test_a_published_offset_waits_for_the_coordinator_of_a_clusters_first_group():
    """A new cluster has no coordinator for a moment. That is no objection."""
    refusals = [ErrorCode.coordinator_not_available, ErrorCode.coordinator_load_in_progress]

    def commit(request: Any, version: int) -> Any:
        module, code = answer_kinds(OFFSET_COMMIT, version), refusals.pop() if refusals else ErrorCode.none
        (topic,) = request.topics
        (partition,) = topic.partitions
        part = module.OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
        topics = (module.OffsetCommitResponseTopic(name=topic.name, partitions=(part,)),)
        return make(module.OffsetCommitResponse, throttle_time=timedelta(0), topics=topics)

    with BrokerInAThread() as server, closing(Cluster("A", {"bootstrap.servers": server.broker.address})) as cluster:
        server.broker.api_versions[OFFSET_COMMIT] = (2, 8)
        server.broker.handlers[OFFSET_COMMIT] = commit
        assert cluster.publish("g", {TopicPartition("t", 0): 7}) == ""
        eventually(
            lambda: cluster.holds("g", {TopicPartition("t", 0): 7}), within_s=30, because="the third commit is taken"
        )
        assert refusals == []
        assert cluster.publish("g", {TopicPartition("t", 0): 8}) == ""
        # A commit that is in flight when the cluster is closed would open another connection, which nobody closes.
        eventually(lambda: cluster.holds("g", {TopicPartition("t", 0): 8}), within_s=30, because="it is committed")
