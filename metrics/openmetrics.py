"""The text of OpenMetrics 1.0: the same series with units, times since when counters count, and exemplars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import REGISTRY
from prometheus_client.openmetrics.exposition import generate_latest

from metrics.cap import Exemplar, Family, Histogram, Labels, Value, capped
from metrics.catalogue import MetricSpec
from metrics.exposition import Rendered, alias_lines, braces, escaped, number, render, single, strimzi, telling

Began = Mapping[tuple[str, ...], Mapping[Labels, float]]


def openmetrics(
    snapshot: Mapping[str, Mapping[Labels, Value]], began: Began, *, max_series: int, strimzi_names: bool = False
) -> str:
    """Return the whole answer to a scrape.

    A scraper takes each `_created` for a series of its own: they fill what the cap leaves, in the catalogue's order.

    Args:
        snapshot: Series of every family of the catalogue, by the family's name.
        began: When counters began to count (epoch seconds), by the names and values of their labels.
        max_series: Cap on the lines of the catalogue's families (metrics.cap).
        strimzi_names: Also give MirrorMaker's measures the names that Strimzi's exporter rules give them.
    """
    families, dropped = capped(snapshot, max_series)
    exposed = sum(family.size() for family in families)
    dated: set[str] = set()
    for family in families:
        lines = _created_lines(family, began)
        if lines and exposed + lines <= max_series:
            dated.add(family.spec.name)
            exposed += lines
    families = telling(families, exposed=exposed, dropped=dropped)
    rendered: Rendered = {}
    parts: list[str] = []
    for family in families:
        spec, is_dated = family.spec, family.spec.name in dated
        parts.append(_head(spec))
        if spec.kind == "histogram":
            parts.extend(_histograms(family, is_dated=is_dated))
        elif spec.kind == "counter":
            parts.extend(_counters(family, rendered, since(family, began) if is_dated else {}))
        else:
            parts.extend(
                f"{spec.name}{braces(family.labels, labels, rendered)} {number(single(value))}\n"
                for labels, value in family.series.items()
            )
    if strimzi_names:
        parts.extend(alias_lines(strimzi(families), rendered))
    parts.append(generate_latest(REGISTRY).decode())  # type: ignore[no-untyped-call]  # ends with "# EOF"
    return "".join(parts)


def since(family: Family, began: Began) -> Mapping[Labels, float]:
    """Return when a family's counters began; of the sum that a fold makes there is no such time."""
    return began.get(family.labels, {}) if family.labels == family.spec.labels else {}


def _created_lines(family: Family, began: Began) -> int:
    if family.spec.kind == "counter":
        return len(since(family, began).keys() & family.series.keys())
    return sum(isinstance(value, Histogram) and value.began_s is not None for value in family.series.values())


def _head(spec: MetricSpec) -> str:
    name, kind = base_name(spec), _type_of(spec)
    about = escaped(spec.help)
    unit = spec.unit.split()[-1]
    has_unit = kind != "info" and name.endswith(f"_{unit}")
    return f"# HELP {name} {about}\n# TYPE {name} {kind}\n" + (f"# UNIT {name} {unit}\n" if has_unit else "")


def base_name(spec: MetricSpec) -> str:
    """Return the family's name in OpenMetrics, without the suffix that its type gives its series."""
    return spec.name.removesuffix("_total").removesuffix("_info" if _type_of(spec) == "info" else "")


def _type_of(spec: MetricSpec) -> str:
    return "info" if spec.kind == "gauge" and spec.unit == "1" and spec.name.endswith("_info") else spec.kind


def _counters(family: Family, rendered: Rendered, began: Mapping[Labels, float]) -> Iterator[str]:
    name = base_name(family.spec)
    for labels, value in family.series.items():
        where = braces(family.labels, labels, rendered)
        yield f"{name}_total{where} {number(single(value))}\n"
        if labels in began:
            yield f"{name}_created{where} {number(began[labels])}\n"


def _histograms(family: Family, *, is_dated: bool) -> Iterator[str]:
    name = family.spec.name
    for labels, histogram in family.series.items():
        assert isinstance(histogram, Histogram)
        below = 0
        for bound, below, exemplar in family.buckets(histogram):
            where = render((*family.labels, "le"), (*labels, number(bound)))
            yield f"{name}_bucket{where} {below}{_exemplar(exemplar) if exemplar is not None else ''}\n"
        where = render(family.labels, labels)
        if histogram.total >= 0:  # records from the future, on the whole: OpenMetrics has no sum then, and no count
            yield f"{name}_count{where} {below}\n{name}_sum{where} {number(histogram.total)}\n"
        if is_dated and histogram.began_s is not None:
            yield f"{name}_created{where} {number(histogram.began_s)}\n"


def _exemplar(exemplar: Exemplar) -> str:
    pairs = ",".join(f'{name}="{escaped(value)}"' for name, value in exemplar.labels)
    return f" # {{{pairs}}} {number(exemplar.value)} {number(exemplar.at_s)}"
