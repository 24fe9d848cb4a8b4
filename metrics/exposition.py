"""Write the text that Prometheus reads (format 0.0.4), straight from the series; share what other formats have in common.

Not by prometheus-client, whose writer took 2 s of CPU per scrape at 140,000 series, in the process that also drives
Spark; a test reads our text with its parser. What concerns our own process (CPU, memory, file handles) is its collectors'.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client import REGISTRY, generate_latest

from metrics.cap import Family, Histogram, Labels, Value, capped
from metrics.catalogue import SLOT

STRIMZI = "kafka_connect_mirror_mirrorsourceconnector_"
STRIMZI_CHECKPOINT = "kafka_connect_mirror_mirrorcheckpointconnector_"
STRIMZI_LAG = "kafka_consumer_fetch_manager_records_lag"
STRIMZI_TASK = "kafka_connect_source_task_"
STRIMZI_STATUS = "kafka_connect_connector_status"


Rendered = dict[tuple[tuple[str, ...], Labels], str]  # most label sets occur in some twenty families


class Alias(NamedTuple):
    """A gauge that repeats a family's values under another name."""

    name: str
    help: str
    labels: tuple[str, ...]
    series: Iterable[tuple[Labels, float]]


def exposition(snapshot: Mapping[str, Mapping[Labels, Value]], *, max_series: int, strimzi_names: bool = False) -> str:
    """Return the whole answer to a scrape.

    Args:
        snapshot: Series of every family of the catalogue, by the family's name.
        max_series: Cap on the lines of the catalogue's families (metrics.cap).
        strimzi_names: Also give MirrorMaker's measures the names that Strimzi's exporter rules give them.
    """
    families, dropped = capped(snapshot, max_series)
    families = telling(families, exposed=sum(family.size() for family in families), dropped=dropped)
    rendered: Rendered = {}
    parts = list(_lines(families, rendered))
    if strimzi_names:
        parts.extend(alias_lines(strimzi(families), rendered))
    parts.append(generate_latest(REGISTRY).decode())
    return "".join(parts)


def telling(families: Iterable[Family], *, exposed: int, dropped: int) -> list[Family]:
    """Return the families of an answer, which tells how many series it has, and how many it leaves out."""
    own = {"kafka_mirror_exposed_series": exposed, "kafka_mirror_dropped_series": dropped}
    return [
        Family(family.spec, (), {(): float(own[family.spec.name])}) if family.spec.name in own else family
        for family in families
    ]


def _lines(families: Iterable[Family], rendered: Rendered) -> Iterator[str]:
    for family in families:
        spec = family.spec
        yield f"# HELP {spec.name} {_help(spec.help)}\n# TYPE {spec.name} {spec.kind}\n"
        for labels, value in family.series.items():
            if isinstance(value, Histogram):
                yield _histogram(family, labels, value)
            else:
                yield f"{spec.name}{braces(family.labels, labels, rendered)} {number(value)}\n"


def _histogram(family: Family, labels: Labels, histogram: Histogram) -> str:
    name, lines, below = family.spec.name, [], 0
    for bound, below, _ in family.buckets(histogram):
        lines.append(f"{name}_bucket{render((*family.labels, 'le'), (*labels, number(bound)))} {below}\n")
    braces = render(family.labels, labels)
    lines.append(f"{name}_count{braces} {below}\n{name}_sum{braces} {number(histogram.total)}\n")
    return "".join(lines)


def alias_lines(aliases: Iterable[Alias], rendered: Rendered) -> Iterator[str]:
    """Write gauges under other names; the same in each text format."""
    for name, about, names, series in aliases:
        yield f"# HELP {name} {about}\n# TYPE {name} gauge\n"
        for labels, value in series:
            yield f"{name}{braces(names, labels, rendered)} {number(value)}\n"


def strimzi(families: Iterable[Family]) -> Iterator[Alias]:
    """Return the measures of MirrorMaker, and of Connect's tasks, under the names that Strimzi's exporter rules give them."""
    by_name = {family.spec.name: family for family in families}
    for family in by_name.values():
        if not family.spec.mm2 or family.labels != family.spec.labels:
            continue
        if family.labels == SLOT:
            about = f"Connect's {family.spec.mm2}; the same as {family.spec.name}. A task is a slot."
            tasks = ((_task(labels), single(value)) for labels, value in family.series.items())
            yield Alias(STRIMZI_TASK + family.spec.mm2.replace("-", "_"), about, ("connector", "task"), tasks)
            continue
        connector = STRIMZI_CHECKPOINT if "group" in family.labels else STRIMZI
        about = f"MirrorMaker's {family.spec.mm2}; the same as {family.spec.name}."
        series = ((labels, single(value)) for labels, value in family.series.items())
        yield Alias(connector + family.spec.mm2.replace("-", "_"), about, family.labels, series)
    yield _strimzi_status(by_name["kafka_mirror_read_ahead_records"], by_name["kafka_mirror_query_active"])
    lag, topics = by_name["kafka_mirror_lag_records"], by_name["kafka_mirror_topic_info"]
    if lag.labels == lag.spec.labels:
        about = f"The same as {lag.spec.name}, by the topic's name on the source."
        yield Alias(STRIMZI_LAG, about, ("clientid", "topic", "partition"), _strimzi_lag(lag, topics))


def _task(slot: Labels) -> Labels:
    """Return how Strimzi names the connector of a flow, and the task that a slot is."""
    source, target, number = slot
    return f"{source}->{target}.MirrorSourceConnector", number


def _strimzi_status(slots: Family, queries: Family) -> Alias:
    """Return a status of each slot that this process serves, as Connect has one of each task. `slots`: a gauge of slots."""
    is_well = all(single(value) for value in queries.series.values())
    status = "running" if is_well else "failed"
    series = (((*_task(slot), status), 1.0) for slot in slots.series)
    return Alias(STRIMZI_STATUS, "Always 1: whether Spark's queries run.", ("connector", "task", "status"), series)


def _strimzi_lag(lag: Family, topics: Family) -> Iterator[tuple[Labels, float]]:
    """Return lag as boards know it from MirrorMaker's own consumer, whose topic is the one on the source."""
    source_topics = {labels[:3]: labels[3] for labels in topics.series}
    for (source, target, topic, partition), value in lag.series.items():
        on_source = source_topics.get((source, target, topic), topic)
        yield (f"{source}->{target}", on_source, partition), single(value)


def single(value: Value) -> float:
    """Return a value that is no histogram."""
    assert not isinstance(value, Histogram)
    return value


def braces(names: tuple[str, ...], labels: Labels, rendered: Rendered) -> str:
    """Return a series' labels as they stand behind its name, kept in `rendered` for the next family that has them."""
    found = rendered.get((names, labels))
    if found is None:
        found = rendered[names, labels] = render(names, labels)
    return found


def render(names: tuple[str, ...], labels: Labels) -> str:
    """Return labels as they stand behind a series' name."""
    if not names:
        return ""
    pairs = sorted(zip(names, labels, strict=True))
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in pairs) + "}"


def escaped(value: str) -> str:
    """Return a label's value without what would end it."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def number(value: float) -> str:
    """Return a value as Prometheus and OpenMetrics write it."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(float(value))
