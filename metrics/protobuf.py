"""The answer in Prometheus' own messages (io.prometheus.client.MetricFamily), which alone have native histograms.

The wire format is written by hand, as the text is: a series is its labels' bytes, which twenty families share, and eight
bytes of value. Tests read it with the messages that protoc makes from Prometheus' metrics.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import REGISTRY
from prometheus_client.core import Metric

from metrics import native
from metrics.cap import Exemplar, Family, Histogram, Labels, Value, capped
from metrics.exposition import single, strimzi, telling
from metrics.openmetrics import Began, since

# Of MetricType; io.prometheus.client has no others that we serve.
_TYPES = {"counter": 0, "gauge": 1, "unknown": 3, "histogram": 4}
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_DOUBLE = struct.Struct("<d")

_Rendered = dict[tuple[tuple[str, ...], Labels], bytes]


def protobuf(
    snapshot: Mapping[str, Mapping[Labels, Value]], began: Began, *, max_series: int, strimzi_names: bool = False
) -> bytes:
    """Return the whole answer to a scrape: messages, each behind its length. Arguments as for `openmetrics`.

    Histograms have classic buckets and native ones; times since when series count are fields here, and cost no series.
    """
    families, dropped = capped(snapshot, max_series)
    families = telling(families, exposed=sum(family.size() for family in families), dropped=dropped)
    rendered: _Rendered = {}
    parts = [
        _message(family.spec.name, family.spec.help, family.spec.kind, _series(family, since(family, began), rendered))
        for family in families
    ]
    if strimzi_names:
        for name, about, names, series in strimzi(families):
            gauges = (_pairs(names, labels, rendered) + _gauge(value) for labels, value in series)
            parts.append(_message(name, about, "gauge", gauges))
    parts.extend(_of_process(metric) for metric in REGISTRY.collect())
    return b"".join(parts)


def _series(family: Family, began: Mapping[Labels, float], rendered: _Rendered) -> Iterator[bytes]:
    for labels, value in family.series.items():
        pairs = _pairs(family.labels, labels, rendered)
        if isinstance(value, Histogram):
            yield pairs + _histogram(family, value)
        elif family.spec.kind == "counter":
            yield pairs + _counter(value, began.get(labels))
        else:
            yield pairs + _gauge(single(value))


def _message(name: str, about: str, kind: str, series: Iterable[bytes]) -> bytes:
    body = _text(1, name) + _text(2, about) + _number(3, _TYPES[kind]) + b"".join(_bytes(4, one) for one in series)
    return _varint(len(body)) + body


def _of_process(metric: Metric) -> bytes:
    """Return what prometheus-client's collectors tell of our own process: counters and gauges."""
    began = {_key(sample.labels): sample.value for sample in metric.samples if sample.name.endswith("_created")}
    kind = metric.type if metric.type in ("counter", "gauge") else "unknown"
    series = []
    for sample in metric.samples:
        if sample.name.endswith("_created"):
            continue
        names, labels = tuple(sample.labels), tuple(sample.labels.values())
        value = _counter(sample.value, began.get(_key(sample.labels))) if kind == "counter" else _gauge(sample.value)
        series.append(_pairs(names, labels, {}) + (value if kind != "unknown" else _bytes(5, _double(1, sample.value))))
    name = f"{metric.name}_total" if kind == "counter" else metric.name
    return _message(name, metric.documentation, kind, series)


def _key(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


# --- a metric ------------------------------------------------------------------------------------------------------


def _pairs(names: tuple[str, ...], labels: Labels, rendered: _Rendered) -> bytes:
    found = rendered.get((names, labels))
    if found is None:
        found = rendered[names, labels] = _labels(zip(names, labels, strict=True))
    return found


def _labels(pairs: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(_bytes(1, _text(1, name) + _text(2, value)) for name, value in sorted(pairs))


def _gauge(value: float) -> bytes:
    return b"\x12\x09\x09" + _DOUBLE.pack(value)  # field 2, nine bytes: field 1, a double


def _counter(value: float, began_s: float | None) -> bytes:
    return _bytes(3, _double(1, value) + (_timestamp(3, began_s) if began_s is not None else b""))


def _histogram(family: Family, histogram: Histogram) -> bytes:
    below, buckets = 0, b""
    for bound, below, exemplar in family.buckets(histogram):
        body = _number(1, below) + _double(2, bound)
        if exemplar is not None:
            body += _bytes(3, _exemplar(exemplar))
        buckets += _bytes(3, body)
    began = b"" if histogram.began_s is None else _timestamp(15, histogram.began_s)
    return _bytes(7, _number(1, below) + _double(2, histogram.total) + buckets + _native(histogram.native) + began)


def _native(counts: Mapping[int, int]) -> bytes:
    zero = _double(6, native.ZERO_THRESHOLD) + _number(7, counts.get(0, 0))
    above, below = (native.runs(counts, negative=negative) for negative in (False, True))
    return _number(5, _signed(native.SCHEMA)) + zero + _buckets(9, 10, below) + _buckets(12, 13, above)


def _buckets(spans: int, deltas: int, runs: list[tuple[int, list[int]]]) -> bytes:
    """Write runs of buckets: each begins so far behind the one before; each count is written as its difference."""
    written, end, before = b"", 0, 0
    for index, counts in runs:
        written += _bytes(spans, _number(1, _signed(index - end)) + _number(2, len(counts)))
        end = index + len(counts)
    for _, counts in runs:
        for count in counts:
            written += _number(deltas, _signed(count - before))
            before = count
    return written


def _exemplar(exemplar: Exemplar) -> bytes:
    return _labels(exemplar.labels) + _double(2, exemplar.value) + _timestamp(3, exemplar.at_s)


def _timestamp(field: int, epoch_s: float) -> bytes:
    seconds, nanos = divmod(round(epoch_s * 1e9), 10**9)
    return _bytes(field, _number(1, seconds) + (_number(2, nanos) if nanos else b""))


# --- the wire format -----------------------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _signed(value: int) -> int:
    """Return a sint32 or sint64 as the varint that is written for it (zigzag)."""
    return value * 2 if value >= 0 else -value * 2 - 1


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | _FIXED64) + _DOUBLE.pack(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())
