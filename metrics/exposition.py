"""Write a scrape in the requested format: Prometheus' text format (0.0.4) or OpenMetrics 1.0.

prometheus-client's writer took 2 s of CPU time per scrape at 140,000 series, in the process that also drives Spark. The tests
parse both formats with prometheus-client's parsers. Only the series about the process itself (CPU, memory, file handles) come
from prometheus-client.

OpenMetrics also has units, start times of counters and histograms (`_created`), and exemplars.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum

import prometheus_client
import prometheus_client.openmetrics.exposition as their_openmetrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from metrics.cap import capped
from metrics.catalogue import MetricSpec
from metrics.series import Exemplar, Family, Histogram, Labels, Value, single
from metrics.strimzi import Alias, aliases

Began = Mapping[tuple[str, ...], Mapping[Labels, float]]
_Created = Mapping[Labels, float]
_Rendered = dict[tuple[tuple[str, ...], Labels], str]  # most label sets occur in some twenty families
_NEVER: Began = {}
_NONE: _Created = {}


class Format(Enum):
    """An exposition format, by its content type."""

    TEXT = CONTENT_TYPE_PLAIN_0_0_4
    OPENMETRICS = their_openmetrics.CONTENT_TYPE_LATEST


# Media type and parameter values of each format. Prometheus also requests OpenMetrics 0.0.1, which has the same text.
_WANTED: dict[Format, tuple[str, dict[str, tuple[str, ...]]]] = {
    Format.OPENMETRICS: ("application/openmetrics-text", {"version": ("1.0.0", "0.0.1")}),
    Format.TEXT: ("text/plain", {"version": ("0.0.4",)}),
}
_WITHOUT_ASKING = Format.TEXT


def exposition(
    snapshot: Mapping[str, Mapping[Labels, Value]],
    began: Began = _NEVER,
    *,
    wanted: Format = Format.TEXT,
    max_series: int,
    strimzi_names: bool = False,
) -> str:
    """Return the complete response to a scrape.

    Args:
        snapshot: Series of every family of the catalogue, by the family's name.
        began: When counters started to count (epoch seconds), by the names and values of their labels.
        wanted: The format. Series have the same names, labels and values in both.
        max_series: Maximum number of lines of the catalogue's families (metrics.cap).
        strimzi_names: Repeat MirrorMaker's measures under the names of Strimzi's exporter rules, too.
    """
    is_open = wanted is Format.OPENMETRICS
    families, dropped = capped(snapshot, max_series)
    exposed = sum(family.size() for family in families)
    created = _created(families, began, max_series - exposed) if is_open else {}
    exposed += sum(map(len, created.values()))
    rendered: _Rendered = {}
    parts: list[str] = []
    families = [_counting(family, exposed=exposed, dropped=dropped) for family in families]
    for family in families:
        parts.append(
            _open_head(family.spec) if is_open else _head(family.spec.name, family.spec.help, family.spec.kind)
        )
        times = created.get(family.spec.name, _NONE)
        if family.spec.kind == "histogram":
            parts.extend(_histograms(family, times, is_open=is_open))
        else:
            parts.extend(_lines(family, times, rendered))
    if strimzi_names:
        parts.extend(_alias_lines(aliases(families), rendered))
    of_process = their_openmetrics if is_open else prometheus_client
    parts.append(of_process.generate_latest(prometheus_client.REGISTRY).decode())  # OpenMetrics' ends with "# EOF"
    return "".join(parts)


def _created(families: Iterable[Family], began: Began, room: int) -> dict[str, _Created]:
    """Return when series started to count, by family.

    Prometheus stores each `_created` as a series. In the catalogue's order, they use the lines that the cap leaves.
    """
    created: dict[str, _Created] = {}
    for family in families:
        times = _times_of(family, began)
        if times and len(times) <= room:
            created[family.spec.name] = times
            room -= len(times)
    return created


def _times_of(family: Family, began: Began) -> _Created:
    if family.labels != family.spec.labels:  # folded sums have no such time
        return _NONE
    if family.spec.kind == "histogram":
        found = {key: one.began_s for key, one in family.series.items() if isinstance(one, Histogram)}
        return {key: began_s for key, began_s in found.items() if began_s is not None}
    if family.spec.kind == "counter":
        times = began.get(family.labels, _NONE)
        return {labels: times[labels] for labels in family.series if labels in times}
    return _NONE


def _counting(family: Family, *, exposed: int, dropped: int) -> Family:
    """Return a family; if it counts the series of this response, set its value."""
    own = {"kafka_mirror_exposed_series": exposed, "kafka_mirror_dropped_series": dropped}
    name = family.spec.name
    return Family(family.spec, (), {(): float(own[name])}) if name in own else family


def _head(name: str, about: str, kind: str) -> str:
    about = about.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {about}\n# TYPE {name} {kind}\n"


def _open_head(spec: MetricSpec) -> str:
    name, unit = base_name(spec), spec.unit.split()[-1]
    kind = "info" if _is_info(spec) else spec.kind
    has_unit = kind != "info" and name.endswith(f"_{unit}")
    unit_line = f"# UNIT {name} {unit}\n" if has_unit else ""
    return f"# HELP {name} {_escaped(spec.help)}\n# TYPE {name} {kind}\n{unit_line}"


def base_name(spec: MetricSpec) -> str:
    """Return the family's name in OpenMetrics, without its type's suffix."""
    return spec.name.removesuffix("_info") if _is_info(spec) else spec.name.removesuffix("_total")


def _is_info(spec: MetricSpec) -> bool:
    return spec.kind == "gauge" and spec.unit == "1" and spec.name.endswith("_info")


def _lines(family: Family, created: _Created, rendered: _Rendered) -> Iterator[str]:
    name, names = family.spec.name, family.labels
    for labels, value in family.series.items():
        where = _braces(names, labels, rendered)
        yield f"{name}{where} {_number(single(value))}\n"
        if labels in created:
            yield f"{base_name(family.spec)}_created{where} {_number(created[labels])}\n"


def _histograms(family: Family, created: _Created, *, is_open: bool) -> Iterator[str]:
    name = family.spec.name
    for labels, histogram in family.series.items():
        assert isinstance(histogram, Histogram)
        below = 0
        for bound, below, exemplar in family.buckets(histogram):
            where = _render((*family.labels, "le"), (*labels, _number(bound)))
            yield f"{name}_bucket{where} {below}{_exemplar(exemplar) if is_open and exemplar is not None else ''}\n"
        where = _render(family.labels, labels)
        # OpenMetrics does not allow a sum below 0 (most records are from the future), nor a count without a sum.
        if histogram.total >= 0 or not is_open:
            yield f"{name}_count{where} {below}\n{name}_sum{where} {_number(histogram.total)}\n"
        if labels in created:
            yield f"{name}_created{where} {_number(created[labels])}\n"


def _exemplar(exemplar: Exemplar) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in exemplar.labels)
    return f" # {{{pairs}}} {_number(exemplar.value)} {_number(exemplar.at_s)}"


def _alias_lines(repeated: Iterable[Alias], rendered: _Rendered) -> Iterator[str]:
    for name, about, names, series in repeated:
        yield _head(name, about, "gauge")
        for labels, value in series:
            yield f"{name}{_braces(names, labels, rendered)} {_number(value)}\n"


def _braces(names: tuple[str, ...], labels: Labels, rendered: _Rendered) -> str:
    """Return the labels of a series in braces.

    `rendered` caches the text for families with the same labels.
    """
    found = rendered.get((names, labels))
    if found is None:
        found = rendered[names, labels] = _render(names, labels)
    return found


def _render(names: tuple[str, ...], labels: Labels) -> str:
    if not names:
        return ""
    pairs = sorted(zip(names, labels, strict=True))
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(float(value))


def negotiated(accept: str) -> Format:
    """Return the format with the highest quality in an Accept header, by default text.

    OpenMetrics is chosen only if the header names it: browsers, curl and other tools that accept anything get the text format.
    As in RFC 9110, the most specific range that matches a format sets its quality, and 0 excludes the format.
    """
    best, best_quality = _WITHOUT_ASKING, 0.0
    ranges = [_range(part) for part in accept.split(",") if part.strip()]
    for candidate in Format:
        found = [
            (specificity, quality)
            for media, parameters, quality in ranges
            if (specificity := _specificity(candidate, media, parameters)) is not None
        ]
        if found and (quality := max(found)[1]) > 0 and quality >= best_quality:
            best, best_quality = candidate, quality
    return best


def _range(part: str) -> tuple[str, dict[str, str], float]:
    media, *given = (piece.strip() for piece in part.lower().split(";"))
    parameters = {name.strip(): value.strip().strip('"') for name, _, value in (each.partition("=") for each in given)}
    try:
        quality = float(parameters.pop("q", "1"))
    except ValueError:
        quality = 0.0
    return media, parameters, quality if 0 <= quality <= 1 else 0.0


def _specificity(candidate: Format, media: str, parameters: dict[str, str]) -> int | None:
    """Return how specifically a range matches a format.

    Return None if the range does not match.
    """
    wanted, allowed = _WANTED[candidate]
    if candidate is _WITHOUT_ASKING and media in ("*/*", "text/*"):
        return int(media == "text/*")
    if media != wanted or any(parameters.get(name, values[0]) not in values for name, values in allowed.items()):
        return None
    return 2 + len(allowed.keys() & parameters.keys())
