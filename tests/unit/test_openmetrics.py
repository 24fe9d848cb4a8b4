"""What `/metrics` answers to a scraper that asks for OpenMetrics."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from metrics.catalogue import CATALOGUE, PARTITION
from metrics.exposition import Format, base_name, exposition
from metrics.recorder import Recorder
from metrics.reports import Measured
from metrics.series import Exemplar, Histogram, Labels
from tests.unit.test_exposition import full, needs_promtool
from tests.unit.test_exposition import samples as classic_samples
from tests.unit.test_metrics import UNMEASURED, counts, report

BEGAN_S = 1_700_000_000.5
OWN = "kafka_mirror_", "kafka_connect_", "kafka_consumer_"


def dated(snapshot: Mapping[str, Mapping[Labels, float | Histogram]]) -> dict[tuple[str, ...], dict[Labels, float]]:
    """When the counters of a snapshot began."""
    began: dict[tuple[str, ...], dict[Labels, float]] = {}
    for spec in CATALOGUE:
        if spec.kind == "counter":
            began.setdefault(spec.labels, {}).update(dict.fromkeys(snapshot[spec.name], BEGAN_S))
    return began


def whole(*, partitions: int = 2) -> dict[str, dict[Labels, float | Histogram]]:
    """A value of every family, histograms with all that they may have."""
    snapshot = full(partitions=partitions)
    for name, series in snapshot.items():
        for labels, value in series.items():
            if name.endswith("_info"):
                series[labels] = 1.0
            if isinstance(value, Histogram):
                value.began_s = BEGAN_S
                if len(labels) == 3:  # of a topic
                    value.exemplar = Exemplar(0.9, (("partition", "1"), ("window", "17")), BEGAN_S + 60)
    return snapshot


def read(text: str) -> dict[str, object]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def written(*, max_series: int = 10**6) -> str:
    snapshot = whole()
    return exposition(snapshot, dated(snapshot), wanted=Format.OPENMETRICS, max_series=max_series, strimzi_names=True)


def of_ours(text: str) -> str:
    """The lines that do not depend on this very process."""
    own = [line for line in text.splitlines() if any(part.startswith(OWN) for part in line.split(" ")[:3])]
    return "".join(f"{line}\n" for line in own)


def test_the_texts_are_what_they_were(golden):
    golden("exposition/classic.txt", of_ours(exposition(full(partitions=2), max_series=10**6, strimzi_names=True)))
    golden("exposition/openmetrics.txt", of_ours(written()))
    assert written().endswith("\n# EOF\n")


def test_the_classic_text_knows_nothing_of_the_rest():
    snapshot = whole()
    bare = {
        name: {key: Histogram(v.counts, v.total) if isinstance(v, Histogram) else v for key, v in series.items()}
        for name, series in snapshot.items()
    }
    assert of_ours(exposition(snapshot, max_series=10**6)) == of_ours(exposition(bare, max_series=10**6))


def test_every_family_is_read_with_its_type_unit_and_help():
    families = read(written())
    assert {name for name in families if name.startswith("kafka_mirror")} == {base_name(spec) for spec in CATALOGUE}
    for spec in CATALOGUE:
        family = families[base_name(spec)]
        assert family.documentation == spec.help
        assert family.type in (spec.kind, "info")
        assert (family.type == "info") == (spec.name.endswith("_info"))
    units = {name: family.unit for name, family in families.items() if family.unit}
    assert units["kafka_mirror_lag_seconds"] == units["kafka_mirror_replication_latency_seconds"] == "seconds"
    assert units["kafka_mirror_last_poll_timestamp_seconds"] == "seconds"
    assert units["kafka_mirror_lag_records"] == "records"
    assert units["kafka_mirror_windows"] == "windows"
    assert "kafka_mirror_record_count" not in units


def test_a_series_has_the_same_name_labels_and_value_in_both_texts():
    """Who asks for the one, and then for the other, goes on with the same series."""
    snapshot = whole()
    own = {"kafka_mirror_exposed_series"}

    def known(families):
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in families
            for sample in family.samples
            if sample.name.startswith(OWN) and not sample.name.endswith("_created") and sample.name not in own
        }

    plain = classic_samples(exposition(snapshot, max_series=10**6, strimzi_names=True))
    open_ones = known(
        read(exposition(snapshot, wanted=Format.OPENMETRICS, max_series=10**6, strimzi_names=True)).values()
    )
    assert open_ones == {key: value for key, value in plain.items() if key[0].startswith(OWN) and key[0] not in own}


def test_counters_and_histograms_have_a_creation_time():
    families = read(written())
    for spec in CATALOGUE:
        created = [s for s in families[base_name(spec)].samples if s.name == f"{base_name(spec)}_created"]
        if spec.kind == "gauge":
            assert created == []
        else:
            assert created
            assert {sample.value for sample in created} == {BEGAN_S}


def test_times_of_begin_fill_what_the_cap_leaves_and_are_counted():
    snapshot = whole()
    bare = exposition(snapshot, wanted=Format.OPENMETRICS, max_series=10**6)
    lines = sum(line.startswith("kafka_mirror") for line in bare.splitlines()) - 3  # those histograms bring their own
    for room in (3, 20, 10**6):
        text = exposition(snapshot, dated(snapshot), wanted=Format.OPENMETRICS, max_series=lines + room)
        series = sum(line.startswith("kafka_mirror") for line in text.splitlines())
        assert series <= lines + room
        assert f"\nkafka_mirror_exposed_series {float(series)}\n" in text
        assert "\nkafka_mirror_dropped_series 0.0\n" in text
    tight = exposition(snapshot, dated(snapshot), wanted=Format.OPENMETRICS, max_series=lines)
    assert "_created" not in tight.partition("# HELP python")[0]


def test_folded_series_have_no_creation_time():
    snapshot = whole(partitions=50)
    text = exposition(snapshot, dated(snapshot), wanted=Format.OPENMETRICS, max_series=400)
    assert "kafka_mirror_record_count_total{" in text
    assert "kafka_mirror_record_count_created{" not in text


@needs_promtool
def test_promtool_takes_the_text(tmp_path):
    """It reads OpenMetrics to fill a store; `check metrics` reads the classic text alone."""
    file = tmp_path / "scrape.txt"
    file.write_text("".join(f"{line}\n" for line in written().splitlines()))
    lines = [
        line if line.startswith("#") else f"{line.partition(' # ')[0]} 1700000000.000"
        for line in written().splitlines()
    ]
    file.write_text("\n".join([*lines, ""]))
    said = subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(file), str(tmp_path / "data")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr


@given(
    topic=st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r")),
    value=st.floats(allow_nan=False),
)
def test_a_parser_reads_the_values_that_were_written(topic, value):
    snapshot: Mapping = {spec.name: {} for spec in CATALOGUE} | {
        "kafka_mirror_lag_records": {("a", "b", topic, "0"): value}
    }
    (sample,) = read(exposition(snapshot, wanted=Format.OPENMETRICS, max_series=10))["kafka_mirror_lag_records"].samples
    assert sample.labels == {"source": "a", "target": "b", "topic": topic, "partition": "0"}
    assert sample.value == value


# --- from reports -------------------------------------------------------------------------------------------------


def recorded(*rows, now_s: float = 100.0) -> Recorder:
    recorder = Recorder()
    recorder.windows.record(rows, now_s=now_s)
    return recorder


def text_of(recorder: Recorder) -> str:
    return exposition(recorder.snapshot(), recorder.store.began(), wanted=Format.OPENMETRICS, max_series=10**6)


def latency_buckets(recorder: Recorder):
    family = read(text_of(recorder))["kafka_mirror_replication_latency_seconds"]
    return {sample.labels["le"]: sample for sample in family.samples if sample.name.endswith("_bucket")}


def test_the_slowest_record_of_the_newest_reports_is_shown_where_it_counts():
    latency = report().latency
    slow = report(partition=3)._replace(window_id=41, latency=latency._replace(max_ms=700.0, counts=counts(b3=3, b9=1)))
    recorder = recorded(report(), slow, report(partition=2)._replace(latency=latency._replace(max_ms=600.0)))
    exemplars = {le: sample.exemplar for le, sample in latency_buckets(recorder).items() if sample.exemplar}
    assert list(exemplars) == ["1.0"]
    assert exemplars["1.0"].labels == {"partition": "3", "window": "41"}
    assert (exemplars["1.0"].value, float(exemplars["1.0"].timestamp)) == (0.7, 100.0)
    recorder.windows.record([report(partition=1)], now_s=110.0)  # 4 ms at most
    exemplars = {le: sample.exemplar for le, sample in latency_buckets(recorder).items() if sample.exemplar}
    assert {le: exemplar.labels["partition"] for le, exemplar in exemplars.items()} == {"0.005": "1"}


def test_a_window_without_records_leaves_the_example():
    recorder = recorded(report())
    idle = report(records=0)._replace(**UNMEASURED)
    recorder.windows.record([idle], now_s=120.0)
    assert [float(s.exemplar.timestamp) for s in latency_buckets(recorder).values() if s.exemplar] == [100.0]


def test_records_from_the_future_count_and_leave_no_sum():
    """OpenMetrics forbids a negative sum; the classic text shows it as it is."""
    ahead = report()._replace(latency=Measured(2.0, 2.0, -5000.0, -20_000.0, counts(b0=4)))
    recorder = recorded(ahead)
    assert latency_buckets(recorder)["+Inf"].value == 4
    names = {sample.name for sample in read(text_of(recorder))["kafka_mirror_replication_latency_seconds"].samples}
    assert not [name for name in names if name.endswith(("_sum", "_count"))]
    assert 'latency_seconds_sum{source="a",target="b",topic="a.t"} -20.0' in exposition(
        recorder.snapshot(), max_series=10**6
    )


def test_a_partition_that_comes_back_gets_a_new_creation_time(monkeypatch):
    monkeypatch.setattr("metrics.recorder.time.time", lambda: 1000.0)
    recorder = recorded(report())
    place = ("a", "b", "a.t", "0")
    assert recorder.store.began()[PARTITION] == {place: 1000.0}
    monkeypatch.setattr("metrics.recorder.time.time", lambda: 2000.0)
    recorder.windows.record([report()], now_s=1.0)
    assert recorder.store.began()[PARTITION] == {place: 1000.0}
    recorder.keep_only([])
    assert recorder.store.began()[PARTITION] == {}
    recorder.record_served_partitions(("a", "b"), [place], expected=1, slots=(0,))
    assert recorder.store.began()[PARTITION] == {place: 2000.0}


@pytest.mark.parametrize("name", ['a"} 1\nup 0\n', "x\\", "a\nb", '"', "\u2028", "é"])
def test_a_hostile_topic_name_stays_one_label(name):
    text = text_of(recorded(report(topic=name)))
    assert not [line for line in text.split("\n") if line.startswith("up ")]
    topics = {sample.labels["topic"] for sample in read(text)["kafka_mirror_record_count"].samples}
    assert topics == {name}
