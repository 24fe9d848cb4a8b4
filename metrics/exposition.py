"""Write the text that Prometheus reads (format 0.0.4), straight from the series.

Not by prometheus-client, whose writer took 2 s of CPU per scrape at 140,000 series, in the process that also drives
Spark; a test reads our text with its parser. What concerns our own process (CPU, memory, file handles) is its collectors'.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import REGISTRY, generate_latest

from metrics.cap import Family, Histogram, Labels, Value, capped

STRIMZI = "kafka_connect_mirror_mirrorsourceconnector_"
STRIMZI_CHECKPOINT = "kafka_connect_mirror_mirrorcheckpointconnector_"
STRIMZI_LAG = "kafka_consumer_fetch_manager_records_lag"


def exposition(snapshot: Mapping[str, Mapping[Labels, Value]], *, max_series: int, strimzi_names: bool = False) -> str:
    """Return the whole answer to a scrape.

    Args:
        snapshot: Series of every family of the catalogue, by the family's name.
        max_series: Cap on the lines of the catalogue's families (metrics.cap).
        strimzi_names: Also give MirrorMaker's measures the names that Strimzi's exporter rules give them.
    """
    families, dropped = capped(snapshot, max_series)
    exposed = sum(family.size() for family in families)
    own = {"kafka_mirror_exposed_series": exposed, "kafka_mirror_dropped_series": dropped}
    families = [
        Family(family.spec, (), {(): float(own[family.spec.name])}) if family.spec.name in own else family
        for family in families
    ]
    rendered: dict[tuple[tuple[str, ...], Labels], str] = {}  # most label sets occur in some twenty families
    parts = list(_lines(families, rendered))
    if strimzi_names:
        parts.extend(_strimzi(families, rendered))
    parts.append(generate_latest(REGISTRY).decode())
    return "".join(parts)


def _lines(families: Iterable[Family], rendered: dict[tuple[tuple[str, ...], Labels], str]) -> Iterator[str]:
    for family in families:
        spec = family.spec
        yield f"# HELP {spec.name} {_help(spec.help)}\n# TYPE {spec.name} {spec.kind}\n"
        for labels, value in family.series.items():
            if isinstance(value, Histogram):
                yield _histogram(family, labels, value)
            else:
                yield f"{spec.name}{_braces(family.labels, labels, rendered)} {_number(value)}\n"


def _histogram(family: Family, labels: Labels, histogram: Histogram) -> str:
    name, lines, below = family.spec.name, [], 0
    for bound, count in zip((*family.spec.bounds, math.inf), histogram.counts, strict=True):
        below += count
        lines.append(f"{name}_bucket{_rendered((*family.labels, 'le'), (*labels, _number(bound)))} {below}\n")
    braces = _rendered(family.labels, labels)
    lines.append(f"{name}_count{braces} {below}\n{name}_sum{braces} {_number(histogram.total)}\n")
    return "".join(lines)


def _strimzi(families: Iterable[Family], rendered: dict[tuple[tuple[str, ...], Labels], str]) -> Iterator[str]:
    by_name = {family.spec.name: family for family in families}
    for family in by_name.values():
        if not family.spec.mm2 or family.labels != family.spec.labels:
            continue
        connector = STRIMZI_CHECKPOINT if "group" in family.labels else STRIMZI
        name = connector + family.spec.mm2.replace("-", "_")
        yield f"# HELP {name} MirrorMaker's {family.spec.mm2}; the same as {family.spec.name}.\n# TYPE {name} gauge\n"
        for labels, value in family.series.items():
            yield f"{name}{_braces(family.labels, labels, rendered)} {_number(_single(value))}\n"
    yield from _strimzi_lag(by_name["kafka_mirror_lag_records"], by_name["kafka_mirror_topic_info"])


def _strimzi_lag(lag: Family, topics: Family) -> Iterator[str]:
    """Write lag as boards know it from MirrorMaker's own consumer, whose topic is the one on the source."""
    if lag.labels != lag.spec.labels:
        return
    source_topics = {labels[:3]: labels[3] for labels in topics.series}
    yield f"# HELP {STRIMZI_LAG} The same as {lag.spec.name}, by the topic's name on the source.\n# TYPE {STRIMZI_LAG} gauge\n"
    for (source, target, topic, partition), value in lag.series.items():
        labels = (f"{source}->{target}", source_topics.get((source, target, topic), topic), partition)
        yield f"{STRIMZI_LAG}{_rendered(('clientid', 'topic', 'partition'), labels)} {_number(_single(value))}\n"


def _single(value: Value) -> float:
    assert not isinstance(value, Histogram)  # MirrorMaker has none
    return value


def _braces(names: tuple[str, ...], labels: Labels, rendered: dict[tuple[tuple[str, ...], Labels], str]) -> str:
    found = rendered.get((names, labels))
    if found is None:
        found = rendered[names, labels] = _rendered(names, labels)
    return found


def _rendered(names: tuple[str, ...], labels: Labels) -> str:
    if not names:
        return ""
    pairs = sorted(zip(names, labels, strict=True))
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(float(value))
