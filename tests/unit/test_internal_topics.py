"""Internal topics that were deleted and created again are recognized by their ids."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mirror.kafka.internal_topics import TopicsById


def test_a_topic_is_another_one_until_it_is_registered_and_never_while_no_id_is_known(caplog):
    ids = {"t": "first", "u": "u"}
    cluster: Any = SimpleNamespace(topic_id=lambda topic: ids.get(topic, ""))
    topics = TopicsById("a->b")
    assert not topics.is_another(cluster, "t"), "nothing is known of it yet"
    topics.register(cluster, "t")
    topics.register(cluster, "u")
    ids["t"] = ""
    assert not topics.is_another(cluster, "t"), "it is deleted, or its broker knows no ids"
    topics.register(cluster, "t")
    ids["t"] = "second"
    assert topics.is_another(cluster, "t")
    assert topics.is_another(cluster, "t"), "it could not be filled"
    assert "a->b: internal topic t was deleted and created again" in caplog.text
    topics.register(cluster, "t")
    assert not topics.is_another(cluster, "t")
    assert not topics.is_another(cluster, "u")
