"""What `/metrics` answers, as Prometheus' own linter reads it."""

from __future__ import annotations

import shutil
import subprocess
import tracemalloc
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from metrics.cap import capped
from metrics.catalogue import CATALOGUE, PARTITION, SLOT, TOPIC
from metrics.exposition import exposition
from metrics.recorder import Recorder
from metrics.reports import CheckpointReport, Measured, SlotReport
from metrics.series import Histogram
from metrics.strimzi import STRIMZI, STRIMZI_CHECKPOINT, STRIMZI_LAG
from mirror.checkpoints.rules import State
from tests.benchmarks.scrape import filled
from tests.unit.test_metrics import counts, report, text

# MirrorMaker's measures are in milliseconds and keep their names; Prometheus' convention is seconds.
IN_MILLISECONDS = {spec.name for spec in CATALOGUE if "_ms" in spec.name}

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed"
)


def full(*, topics: int = 1, partitions: int = 1) -> dict[str, dict[tuple[str, ...], float | Histogram]]:
    """A snapshot with a value for every family of the catalogue."""
    places = [("a", "b", f"a.t{topic}", str(part)) for topic in range(topics) for part in range(partitions)]
    snapshot: dict[str, dict[tuple[str, ...], float | Histogram]] = {}
    for spec in CATALOGUE:
        if spec.labels == PARTITION:
            keys = places
        elif spec.labels[:3] == TOPIC:
            keys = [(*place[:3], *("t" for _ in spec.labels[3:])) for place in places]
        elif spec.labels[:2] == SLOT[:2]:
            keys = [("a", "b", *("x" for _ in spec.labels[2:]))]
        else:
            keys = [tuple("x" for _ in spec.labels)]
        snapshot[spec.name] = {
            key: Histogram([1] * (len(spec.bounds) + 1), 2.5) if spec.kind == "histogram" else float(at)
            for at, key in enumerate(dict.fromkeys(keys))
        }
    return snapshot


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample as Prometheus' Python parser reads it."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def complaints(text: str) -> dict[str, list[str]]:
    """Run `promtool check metrics`; return what it says by family."""
    found = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    said: dict[str, list[str]] = {}
    for line in found.stderr.splitlines():
        assert not line.startswith("error"), line
        name, _, what = line.partition(" ")
        said.setdefault(name, []).append(what)
    return said


@needs_promtool
def test_promtool_objects_to_nothing_but_the_milliseconds():
    text = exposition(full(), max_series=10**6)
    for spec in CATALOGUE:
        assert f"# TYPE {spec.name} {spec.kind}\n" in text
    said = complaints(text)
    assert set(said) <= IN_MILLISECONDS
    assert {name for name in said if f"# HELP {name} " not in text} == set()


@needs_promtool
@pytest.mark.parametrize("name", ['a"} 1\nup 0\n', "x\\", "a\nb", '"', "\u2028", "é"])
def test_a_hostile_topic_name_stays_one_label(name):
    recorder = Recorder()
    recorder.windows.record([report(topic=name)], now_s=1.0)
    written = text(recorder)
    assert set(complaints(written)) <= IN_MILLISECONDS
    assert not [line for line in written.split("\n") if line.startswith("up ")]


@given(
    topic=st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r")),
    value=st.floats(allow_nan=False),
)
def test_a_parser_reads_the_values_that_were_written(topic, value):
    snapshot: Mapping = {spec.name: {} for spec in CATALOGUE} | {
        "kafka_mirror_lag_records": {("a", "b", topic, "0"): value}
    }
    labels = (("partition", "0"), ("source", "a"), ("target", "b"), ("topic", topic))
    assert samples(exposition(snapshot, max_series=10))["kafka_mirror_lag_records", labels] == value


def test_a_histogram_is_read_as_cumulative_buckets_with_count_and_sum():
    recorder = Recorder()
    recorder.windows.record(
        [report()._replace(age=Measured(1.0, 1.0, 3.0, 5000.0, counts(b7=1, b10=2, b20=1)))], now_s=1.0
    )
    found = {key: value for key, value in samples(text(recorder)).items() if "record_age_seconds" in key[0]}
    by_bound = {dict(labels)["le"]: value for (name, labels), value in found.items() if name.endswith("_bucket")}
    assert [by_bound[bound] for bound in ("0.25", "1.0", "2.5", "3600.0", "+Inf")] == [1, 1, 3, 3, 4]
    assert [value for (name, _), value in found.items() if name.endswith(("_count", "_sum"))] == [4, 5]


def test_strimzi_names_are_served_when_asked_for():
    name = f"{STRIMZI}replication_latency_ms_max"
    labels = (("partition", "0"), ("source", "a"), ("target", "b"), ("topic", "a.t0"))
    served = samples(exposition(full(), max_series=10**6, strimzi_names=True))
    assert (name, labels) in served
    # Consumer lag is by the topic's name on the source, as MirrorMaker's consumer has it.
    assert (STRIMZI_LAG, (("clientid", "a->b"), ("partition", "0"), ("topic", "t"))) in served
    plain = exposition(full(), max_series=10**6)
    assert STRIMZI not in plain
    assert STRIMZI_CHECKPOINT not in plain


def test_connects_names_of_tasks_are_served_too():
    recorder = Recorder()
    slot = SlotReport(0.0, read_ahead_records=7, polls=4, polled_records=600, polling_s=0.5, longest_poll_s=0.25)
    first = report()._replace(records=300, duration_ms=2000.0, of_slot=slot)
    recorder.windows.record([first, report()._replace(partition=1, records=200)], now_s=1.0)
    recorder.record_query("lane-0", is_active=True)

    def served() -> dict[str, float]:
        found = samples(exposition(recorder.snapshot(), max_series=10**6, strimzi_names=True))
        where = {"connector": "a->b.MirrorSourceConnector", "task": "0"}
        of_task = {key: value for key, value in found.items() if where.items() <= dict(key[1]).items()}
        return {f"{name} {dict(labels).get('status', '')}".strip(): value for (name, labels), value in of_task.items()}

    assert served() == {
        "kafka_connect_source_task_source_record_active_count": 7,
        "kafka_connect_source_task_source_record_poll_total": 600,
        "kafka_connect_source_task_source_record_poll_rate": 300,
        "kafka_connect_source_task_source_record_write_total": 500,
        "kafka_connect_source_task_source_record_write_rate": 250,
        "kafka_connect_source_task_poll_batch_avg_time_ms": 125,
        "kafka_connect_source_task_poll_batch_max_time_ms": 250,
        "kafka_connect_connector_status running": 1,
    }
    recorder.record_query("lane-0", is_active=False)
    assert "kafka_connect_connector_status failed" in served()
    idle = slot._replace(polls=0, polled_records=0, polling_s=0.0)
    recorder.windows.record([first._replace(records=1, of_slot=idle)], now_s=2.0)
    after = served()
    assert (after["kafka_connect_source_task_source_record_poll_total"], "poll_batch" in str(after)) == (600, False)
    recorder.record_share(("a", "b"), owned=[1], slots=2, processes=2, has_conflict=False)
    after = served()
    assert set(after) == {f"kafka_connect_source_task_source_record_{what}_total" for what in ("poll", "write")}, (
        "another process serves it, and tells the rest"
    )


def test_strimzis_checkpoint_latency_is_the_other_connectors_and_has_its_group():
    recorder = Recorder()
    rows = [CheckpointReport("a", "b", foreign=0)]
    for group, latency_ms in (("g", 40.0), ("h", 90.0)):
        rows.append(CheckpointReport("a", "b", group, "a.t", 3, 5, 5, State.SYNCED, 0, latency_ms))
    recorder.record_checkpoints(rows, now_s=1.0)
    served = samples(exposition(recorder.snapshot(), max_series=10**6, strimzi_names=True))
    place = (("partition", "3"), ("source", "a"), ("target", "b"), ("topic", "a.t"))
    assert {key: value for key, value in served.items() if "checkpoint_latency" in key[0]} == {
        (name, (("group", group), *place)): value
        for prefix in (STRIMZI_CHECKPOINT, "kafka_mirror_")
        for name in (f"{prefix}checkpoint_latency_ms{part}" for part in ("", "_min", "_max", "_avg"))
        for group, value in (("g", 40.0), ("h", 90.0))
    }


# --- the cap --------------------------------------------------------------------------------------------------------


def sizes(families):
    return {family.spec.name: family.size() for family in families}


def test_below_the_cap_nothing_is_dropped():
    families, dropped = capped(full(topics=3, partitions=4), 10**6)
    assert dropped == 0
    assert sizes(families)["kafka_mirror_lag_records"] == 12


def test_the_last_families_fold_first_and_the_counts_add_up():
    snapshot = full(topics=2, partitions=50)
    whole, _ = capped(snapshot, 10**6)
    limit = sum(sizes(whole).values()) - 300
    families, dropped = capped(snapshot, limit)
    left = sizes(families)
    assert left["kafka_mirror_record_age_ms_avg"] == 0  # an average of averages would mean nothing
    assert left["kafka_mirror_record_age_ms_max"] == 2
    assert left["kafka_mirror_lag_records"] == 100
    assert sum(left.values()) + dropped == sum(sizes(whole).values())
    assert sum(left.values()) <= limit


def test_folded_values_are_sums_or_worst_cases():
    families, _ = capped(full(topics=1, partitions=3), 0)
    whole, _ = capped(full(topics=1, partitions=3), 10**6)
    saved = sum(2 if spec.fold else 3 for spec in CATALOGUE if spec.labels == PARTITION)
    found, _ = capped(full(topics=1, partitions=3), sum(sizes(whole).values()) - saved)
    folded = {family.spec.name: family.series for family in found if family.labels == TOPIC}
    assert folded["kafka_mirror_record_count_total"] == {("a", "b", "a.t0"): 0 + 1 + 2}
    assert folded["kafka_mirror_record_age_ms"] == {("a", "b", "a.t0"): 2}
    assert folded["kafka_mirror_record_age_ms_min"] == {("a", "b", "a.t0"): 0}
    assert sizes(families)["kafka_mirror_lag_records"] == 0  # with no room at all, topics give way too
    assert sizes(families)["kafka_mirror_partitions"] == 1  # what concerns a flow never does


def test_dropped_series_are_counted():
    shown = samples(exposition(full(topics=100, partitions=10), max_series=8000))
    own = [name for name, _ in shown if name.startswith("kafka_mirror")]
    assert shown["kafka_mirror_exposed_series", ()] == len(own) <= 8000
    assert shown["kafka_mirror_dropped_series", ()] > 15_000


def test_a_tenants_two_thousand_topics_swamp_neither_the_scrape_nor_the_memory():
    tracemalloc.start()
    recorder = filled(2_000, per_topic=1)
    written = exposition(recorder.snapshot(), max_series=10_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(written.splitlines()) < 10_000 + 3 * len(CATALOGUE) + 200
    assert peak < 60 << 20
