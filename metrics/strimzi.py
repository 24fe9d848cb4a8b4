"""Repeat measures under the names of Strimzi's exporter rules for MirrorMaker, for existing dashboards. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from metrics.catalogue import SLOT
from metrics.series import Family, Labels, single

STRIMZI = "kafka_connect_mirror_mirrorsourceconnector_"
STRIMZI_CHECKPOINT = "kafka_connect_mirror_mirrorcheckpointconnector_"
STRIMZI_LAG = "kafka_consumer_fetch_manager_records_lag"
STRIMZI_TASK = "kafka_connect_source_task_"
STRIMZI_STATUS = "kafka_connect_connector_status"


class Alias(NamedTuple):
    """A gauge that repeats a family's values under another name."""

    name: str
    help: str
    labels: tuple[str, ...]
    series: Iterable[tuple[Labels, float]]


def aliases(families: Iterable[Family]) -> Iterator[Alias]:
    """Return MirrorMaker's measures, and those of Connect's tasks."""
    by_name = {family.spec.name: family for family in families}
    for family in by_name.values():
        if not family.spec.mm2 or family.labels != family.spec.labels:
            continue
        if family.labels == SLOT:
            about = f"Connect's {family.spec.mm2}; same as {family.spec.name}. A task is a slot."
            tasks = ((_task(labels), single(value)) for labels, value in family.series.items())
            yield Alias(STRIMZI_TASK + family.spec.mm2.replace("-", "_"), about, ("connector", "task"), tasks)
            continue
        connector = STRIMZI_CHECKPOINT if "group" in family.labels else STRIMZI
        about = f"MirrorMaker's {family.spec.mm2}; same as {family.spec.name}."
        series = ((labels, single(value)) for labels, value in family.series.items())
        yield Alias(connector + family.spec.mm2.replace("-", "_"), about, family.labels, series)
    yield _status(by_name["kafka_mirror_read_ahead_records"], by_name["kafka_mirror_query_active"])
    lag, topics = by_name["kafka_mirror_lag_records"], by_name["kafka_mirror_topic_info"]
    if lag.labels == lag.spec.labels:
        about = f"Same as {lag.spec.name}, by the topic's name on the source."
        yield Alias(STRIMZI_LAG, about, ("clientid", "topic", "partition"), _lag(lag, topics))


def _task(slot: Labels) -> Labels:
    """Return the flow's connector name in Strimzi's notation, and the task number of a slot."""
    source, target, number = slot
    return f"{source}->{target}.MirrorSourceConnector", number


def _status(slots: Family, queries: Family) -> Alias:
    """Return a status per served slot, as Connect has one per task."""
    is_healthy = all(single(value) for value in queries.series.values())
    status = "running" if is_healthy else "failed"
    series = (((*_task(slot), status), 1.0) for slot in slots.series)
    return Alias(
        STRIMZI_STATUS, "Always 1; label status: whether Spark's queries run.", ("connector", "task", "status"), series
    )


def _lag(lag: Family, topics: Family) -> Iterator[tuple[Labels, float]]:
    """Yield lag under the labels of MirrorMaker's consumer."""
    source_topics = {labels[:3]: labels[3] for labels in topics.series}
    for (source, target, topic, partition), value in lag.series.items():
        on_source = source_topics.get((source, target, topic), topic)
        yield (f"{source}->{target}", on_source, partition), single(value)
