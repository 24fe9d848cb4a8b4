"""Which ACLs are carried over: MirrorMaker's rules."""

from __future__ import annotations

from mirror.policy.topic_acls import Acl, judged, missing

REMOTE = {"orders": "a.orders", "open": "open"}


def acl(topic="orders", operation="READ", permission="ALLOW", principal="User:x"):
    return Acl(topic, principal, "*", operation, permission)


def wanted(one):
    [verdict] = judged([one], REMOTE)
    assert (verdict.wanted is None) == bool(verdict.why_not)
    return verdict.wanted


def test_read_and_all_become_read_on_the_remote_topic():
    assert wanted(acl()) == acl("a.orders")
    assert wanted(acl(operation="ALL")) == acl("a.orders", "READ")
    assert wanted(acl(operation="DESCRIBE_CONFIGS")) == acl("a.orders", "DESCRIBE_CONFIGS")


def test_writers_stay_out_and_who_is_denied_is_denied_there():
    assert wanted(acl(operation="WRITE")) is None
    assert wanted(acl(operation="WRITE", permission="DENY")) == acl("a.orders", "WRITE", "DENY")
    assert wanted(acl(operation="ALL", permission="DENY")) == acl("a.orders", "ALL", "DENY")


def test_every_topic_never_becomes_every_topic_of_the_target():
    assert wanted(acl("*")) is None
    assert wanted(acl("elsewhere")) is None


def test_only_what_is_missing_is_added():
    verdicts = judged([acl(), acl(operation="ALL"), acl(principal="User:y"), acl("*")], REMOTE)
    assert missing(verdicts, []) == [acl("a.orders"), acl("a.orders", principal="User:y")]
    assert missing(verdicts, [acl("a.orders"), acl("a.orders", "WRITE")]) == [acl("a.orders", principal="User:y")]


def test_it_reads_as_a_sentence():
    assert str(acl("a.orders")) == "ALLOW User:x from * to READ a.orders"
