"""What is not honoured, and without which records or logins would differ, is refused by name; the rest is only named."""

from __future__ import annotations

import pytest

from mirror.config.table import FLOW_DEFAULTS


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("transforms = mask", '5: transforms: names "transforms.mask", which has no type'),
        (
            "primary->backup.transforms = mask",
            '5: primary->backup.transforms: names "transforms.mask", which has no type',
        ),
        ("backup.transforms = mask", "5: backup.transforms: is a flow's key, and this one is a cluster's"),
        (
            "backup.value.converter = org.apache.kafka.connect.json.JsonConverter",
            '5: backup.value.converter: "org.apache.kafka.connect.json.JsonConverter" is not supported: bytes stay unchanged',
        ),
        ("header.converter = x", '5: header.converter: "x" is not supported'),
        (
            "primary.ssl.enabled.protocols = TLSv1.2",
            '5: primary.ssl.enabled.protocols: "TLSv1.2" is not supported. Write',
        ),
        ("ssl.cipher.suites = TLS_AES_128_GCM_SHA256", "5: ssl.cipher.suites: is not supported, and the connection"),
        ("backup.producer.ssl.provider = BCFIPS", "5: backup.producer.ssl.provider: is not supported"),
        ("primary->backup.source.admin.ssl.engine.factory.class = a.B", "5: primary->backup.source.admin.ssl.engine"),
        ("primary.sasl.login.class = a.B", "5: primary.sasl.login.class: is not supported"),
        ("primary.consumer.sasl.server.callback.handler.class = a.B", "5: primary.consumer.sasl.server.callback"),
        ("security.providers = a.B", "5: security.providers: is not supported"),
        ("ssl.trustmanager.algorithm = InsecureTrustManager", "5: ssl.trustmanager.algorithm: is not supported"),
        ("topics = a.* # all", '5: topics: "a.* # all" holds a "#": a properties file has no comments after a value'),
        ("primary->backup.groups = g # mine", '5: primary->backup.groups: "g # mine" holds a "#"'),
        (
            "topics = orders payments",
            '5: topics: "orders payments" cannot be a topic, because it contains " ". Separate names',
        ),
        (
            "primary->backup.topics = a/b, c",
            '5: primary->backup.topics: "a/b" cannot be a topic, because it contains "/"',
        ),
        (
            'topics.exclude = "secret.*"',
            "5: topics.exclude: is in quotes, which a properties file takes for a part of the",
        ),
        (
            "topics = 'a, b'",
            "5: topics: is in quotes, which a properties file takes for a part of the names. Write a, b.",
        ),
        (
            "primary->backup.topics.exclude = [secret, private.*]",
            "5: primary->backup.topics.exclude: is in brackets, which a regular expression takes for a set of characters. "
            "Write secret, private.*.",
        ),
        (
            "primary -> backup.topics = orders",
            '5: primary: a key ends at its first blank. Write "->" without blanks: primary->backup.topics = orders.',
        ),
        ("groups = a;b", '5: groups: "a;b" holds a ";". Separate names by commas'),
        (
            "topics = orders*",
            '5: topics: "orders*" is a regular expression, in which "s*" is "s" any number of times. Write',
        ),
        (
            "topic.blacklist = x",
            "5: topic.blacklist: is not a setting of MirrorMaker, and looks like a filter. Write topics.exclude.",
        ),
        (
            "topics.include = x",
            "5: topics.include: is not a setting of MirrorMaker, and looks like a filter. Write topics.",
        ),
        (
            "primary->backup.groups.include = x",
            "5: primary->backup.groups.include: is not a setting of MirrorMaker, and looks like a filter. Write groups.",
        ),
        (
            "topics.regex = x",
            "5: topics.regex: is not a setting of MirrorMaker, and looks like a filter. Write topics.",
        ),
        (
            "primary->backup.groups.denylist = x",
            "5: primary->backup.groups.denylist: is not a setting of MirrorMaker, and lo",
        ),
        ("whitelist = x", "5: whitelist: is not a setting of MirrorMaker, and looks like a filter. Write topics."),
        (
            "primary->backup.exactly.once.source.support = enabled",
            "5: primary->backup.exactly.once.source.support: is the target's key, not a flow's. Write backup.exactly",
        ),
        (
            "primary.exactly.once.source.support = enabled",
            "5: primary.exactly.once.source.support: is the target's key, and primary is the target of no enabled flow",
        ),
        ("primary->backup.topcs = x", '5: primary->backup.topcs: is not a setting of MirrorMaker. Was "topics" meant?'),
        (
            "primary->backup.enable = true",
            '5: primary->backup.enable: is not a setting of MirrorMaker. Was "enabled" meant?',
        ),
        ("task.max = 2", '5: task.max: is not a setting of MirrorMaker. Was "tasks.max" meant?'),
        (
            "primary.security.protcol = SSL",
            '5: primary.security.protcol: is not a setting of MirrorMaker. Was "security.protocol"',
        ),
        (
            "primary->backup.topics.whitelist = x",
            "5: primary->backup.topics.whitelist: is not a setting of MirrorMaker 2",
        ),
    ],
)
def test_a_setting_that_would_change_records_or_security_is_refused(refusal, line, expected):
    assert refusal(line).startswith(expected)


@pytest.mark.parametrize(
    "line",
    [
        "transforms =",
        "transforms.mask.type = x",
        "value.converter = org.apache.kafka.connect.converters.ByteArrayConverter",
        "primary.ssl.enabled.protocols = TLSv1.2, TLSv1.3",
        "ssl.protocol = TLSv1.2",
        "ssl.trustmanager.algorithm = PKIX",
        "ssl.cipher.suites =",
        "primary.sasl.kerberos.kinit.cmd = /usr/bin/kinit",
        "primary.sasl.kerberos.ticket.renew.window.factor = 0.9",
        "sasl.login.refresh.window.factor = 0.5",
        "groups = a#b",
        "groups = my group",
        r"topics = a\\\\.b, c.*",
        "primary->backup.emit.heartbeats = false",
        "enabled = true\nprimary.exactly.once.source.support = enabled",
        "refresh.groups.interval.seconds = 5",
        "offset.storage.replication.factor = 1",
        "primary.consumer.metadata.max.idle.ms = 1",
    ],
)
def test_a_setting_without_effect_is_not_refused(settings, line):
    assert settings(line).flows


def test_no_setting_of_a_flow_is_taken_for_a_slip_of_another_one(settings):
    for key, default in FLOW_DEFAULTS.items():
        if key != "enabled":
            assert settings(f"primary->backup.{key} = {default}".replace("\\", "\\\\")).ignored == ()


def test_a_backslash_that_java_drops_is_noted(settings):
    assert [note.partition(": ")[2] for note in settings(r"topics = prod\..*").notes] == [
        r'topics: Java drops the backslash of "\.", so the pattern is "prod..*". Write "\\." if the backslash is meant.'
    ]
    assert settings(r"topics = prod\\..*").notes == ()
    assert settings(r"primary.ssl.keystore.location = C:\.d").notes == ()
