"""What `/metrics` answers to a scraper that asks for Prometheus' messages, as the protobuf package reads them."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from metrics.cap import Exemplar, Histogram
from metrics.catalogue import BY_NAME, CATALOGUE, PARTITION
from metrics.native import FIRST_INDEX, SCHEMA, ZERO_THRESHOLD, bucket_of
from metrics.protobuf import protobuf
from metrics.recorder import Recorder
from tests.metric_families import families, labels
from tests.unit.test_exposition import samples
from tests.unit.test_metrics import report, text
from tests.unit.test_openmetrics import BEGAN_S, dated, whole

LATENCY = "kafka_mirror_replication_latency_seconds"
KINDS = {"counter": 0, "gauge": 1, "histogram": 4}


def empty():
    return {spec.name: {} for spec in CATALOGUE}


def one(histogram: Histogram):
    """A histogram as it is read back."""
    snapshot = empty() | {LATENCY: {("a", "b", "a.t"): histogram}}
    (metric,) = families(protobuf(snapshot, {}, max_series=10**6))[LATENCY].metric
    return metric.histogram


def buckets(spans, deltas) -> dict[int, int]:
    """Counts by Prometheus' index."""
    counts, index, count, left = {}, 0, 0, list(deltas)
    for span in spans:
        index += span.offset
        for _ in range(span.length):
            count += left.pop(0)
            counts[index] = count
            index += 1
    assert left == []
    return counts


def test_every_family_is_there_with_its_type_and_help():
    snapshot = whole()
    found = families(protobuf(snapshot, dated(snapshot), max_series=10**6, strimzi_names=True))
    for spec in CATALOGUE:
        assert (found[spec.name].type, found[spec.name].help) == (KINDS[spec.kind], spec.help)
        assert len(found[spec.name].metric) == len(snapshot[spec.name])
    assert found["process_cpu_seconds_total"].type == KINDS["counter"]
    assert found["process_cpu_seconds_total"].metric[0].counter.value > 0
    assert found["process_resident_memory_bytes"].metric[0].gauge.value > 1e6
    assert labels(found["python_info"].metric[0])["implementation"] == "CPython"


def test_a_series_has_the_same_name_labels_and_value_as_in_the_text():
    """Who asks for the one, and then for the other, goes on with the same series; of histograms, the classic ones."""
    recorder = Recorder()
    slow = report(partition=1)._replace(latency_max_ms=70.0)
    recorder.record_windows([report(), slow, report(topic='a."\n')], now_s=1.0)
    recorder.record_offsets(("a", "b", "a.t", "0"), start=0, end=9, replicated=7)
    recorder.record_phase("lane-0", "addBatch", 10.1)
    recorder.count("kafka_mirror_query_restarts_total")
    snapshot = recorder.snapshot()
    found = {}
    for name, family in families(protobuf(snapshot, recorder.began(), max_series=10**6)).items():
        for metric in family.metric:
            where = labels(metric)
            if family.type != KINDS["histogram"]:
                value = (metric.counter if family.type == KINDS["counter"] else metric.gauge).value
                found[name, tuple(sorted(where.items()))] = value
                continue
            found[f"{name}_count", tuple(sorted(where.items()))] = metric.histogram.sample_count
            found[f"{name}_sum", tuple(sorted(where.items()))] = metric.histogram.sample_sum
            for bucket in metric.histogram.bucket:
                bound = "+Inf" if math.isinf(bucket.upper_bound) else repr(bucket.upper_bound)
                found[f"{name}_bucket", tuple(sorted({**where, "le": bound}.items()))] = bucket.cumulative_count
    ours = {key: value for key, value in found.items() if key[0].startswith("kafka_mirror")}
    assert ours == {key: value for key, value in samples(text(recorder)).items() if key[0].startswith("kafka_mirror")}


def test_counters_and_histograms_say_since_when_they_count():
    snapshot = whole()
    found = families(protobuf(snapshot, dated(snapshot), max_series=10**6))
    for spec in CATALOGUE:
        for metric in found[spec.name].metric:
            if spec.kind != "gauge":
                created = (metric.counter if spec.kind == "counter" else metric.histogram).created_timestamp
                assert created.seconds + created.nanos / 1e9 == BEGAN_S
    assert (
        not families(protobuf(snapshot, {}, max_series=10**6))["kafka_mirror_windows_total"]
        .metric[0]
        .counter.HasField("created_timestamp")
    )


def test_native_buckets_are_told_by_spans_and_differences():
    native = {0: 3, bucket_of(0.9): 5, bucket_of(1.0) + 1: 2, bucket_of(64.0): 7, bucket_of(-1.0): 1}
    spec = BY_NAME[LATENCY]
    found = one(Histogram([0] * (len(spec.bounds)) + [18], 9.5, native=native, began_s=1.0))
    assert (found.schema, found.zero_threshold, found.zero_count) == (SCHEMA, ZERO_THRESHOLD, 3)
    # Prometheus' bucket 0 ends at 1, 8 buckets up is 2.
    assert buckets(found.positive_span, found.positive_delta) == {-1: 5, 1: 2, 48: 7}
    assert buckets(found.negative_span, found.negative_delta) == {0: 1}
    assert (found.sample_count, found.sample_sum) == (18, 9.5)


@given(st.dictionaries(st.integers(-300, 300), st.integers(1, 10**12), max_size=40))
def test_any_native_buckets_are_read_back(native):
    found = one(Histogram([0] * (len(BY_NAME[LATENCY].bounds) + 1), native=native))
    above = {number + FIRST_INDEX: count for number, count in native.items() if number > 0}
    below = {-number + FIRST_INDEX: count for number, count in native.items() if number < 0}
    assert buckets(found.positive_span, found.positive_delta) == above
    assert buckets(found.negative_span, found.negative_delta) == below
    assert found.zero_count == native.get(0, 0)


def test_a_histogram_without_values_is_native_too():
    """A zero bucket of some width says so to Prometheus."""
    found = one(Histogram([0] * (len(BY_NAME[LATENCY].bounds) + 1)))
    assert (found.sample_count, found.zero_threshold) == (0, ZERO_THRESHOLD)


def test_what_is_reported_is_what_is_served():
    recorder = Recorder()
    slow = report(partition=1)._replace(latency_native=[bucket_of(0.003), 1, bucket_of(9.0), 3])
    recorder.record_windows([report(), slow], now_s=1.0)
    metric = families(protobuf(recorder.snapshot(), recorder.began(), max_series=10**6))[LATENCY].metric[0]
    found = buckets(metric.histogram.positive_span, metric.histogram.positive_delta)
    assert found == {bucket_of(0.003) + FIRST_INDEX: 5, bucket_of(9.0) + FIRST_INDEX: 3}
    assert sum(found.values()) == metric.histogram.sample_count


def test_an_example_is_in_its_bucket():
    exemplar = Exemplar(0.7, (("partition", "3"), ("window", "41")), 100.25)
    found = one(Histogram([1] * (len(BY_NAME[LATENCY].bounds) + 1), exemplar=exemplar))
    (bucket,) = [bucket for bucket in found.bucket if bucket.HasField("exemplar")]
    assert bucket.upper_bound == 1.0
    assert (labels(bucket.exemplar), bucket.exemplar.value) == ({"partition": "3", "window": "41"}, 0.7)
    assert (bucket.exemplar.timestamp.seconds, bucket.exemplar.timestamp.nanos) == (100, 250_000_000)


@given(value=st.floats(), topic=st.text(st.characters(blacklist_categories=["Cs"])))
def test_any_value_and_any_name_is_read_back(value, topic):
    place = ("a", "b", topic, "0")
    found = families(protobuf(empty() | {"kafka_mirror_lag_records": {place: value}}, {}, max_series=10))
    (metric,) = found["kafka_mirror_lag_records"].metric
    assert labels(metric) == dict(zip(PARTITION, place, strict=True))
    assert metric.gauge.value == value or math.isnan(value)
