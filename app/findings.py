"""Read in sentences what an appliance says of itself on /metrics: what is well, what is not. No Streamlit, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from metrics.objective import FRESH_S
from metrics.verdict import Status
from mirror.lag.served_metrics import samples
from mirror.lag.text import duration

SKEW_S = 2.0  # clocks that differ less make no number wrong that a person reads


class Finding(NamedTuple):
    """One thing that was looked at: how it is, and the sentence that says so."""

    status: Status
    sentence: str


def findings(exposition: str, now_s: float) -> list[Finding]:
    """Return what there is to say, the worst first."""
    found = [
        finding
        for sample in samples(exposition, _TOLD)
        for finding in (_TOLD[sample.name](sample.labels, sample.value, now_s),)
        if finding is not None
    ]
    found += _slots(exposition)
    found += _spent(exposition)
    return sorted(found, key=lambda finding: -finding.status)


def spent_on(exposition: str, source: str, target: str) -> dict[str, float]:
    """Return the shares of a flow's time by what its slots spent it on, since the appliance started; {} where nobody tells."""
    spent: dict[str, float] = {}
    for sample in samples(exposition, ("kafka_mirror_slot_seconds_total",)):
        if (sample.labels["source"], sample.labels["target"]) == (source, target):
            what = sample.labels["spent_on"]
            spent[what] = spent.get(what, 0.0) + sample.value
    total = sum(spent.values())
    return {what: seconds / total for what, seconds in spent.items()} if total else {}


def limit(shares: Mapping[str, float]) -> str:
    """Return what limits a flow as a sentence, "" where it is not known."""
    if not shares:
        return ""
    what, share = max(shares.items(), key=lambda each: each[1])
    said = {
        "source": "it waits for records of the source",
        "target": "it waits for acknowledgements of the target",
        "packing": "it packs and unpacks batches, which is this machine's CPU",
        "lease": "it waits for the process that served its slots before",
    }
    return f"{share:.0%} of its time {said.get(what, what)}, since the appliance started"


_Told = Callable[[Mapping[str, str], float, float], Finding | None]


def _flow(labels: Mapping[str, str]) -> str:
    return f"{labels['source']}->{labels['target']}"


def _reported(labels: Mapping[str, str], value: float, now_s: float) -> Finding:
    age_s = max(0.0, now_s - value)
    status = Status.OK if age_s <= FRESH_S else Status.STOP
    return Finding(status, f"{_flow(labels)}: its last window reported {duration(age_s)} ago.")


def _cluster(labels: Mapping[str, str], value: float, _: float) -> Finding:
    answers = "answers" if value else "does not answer"
    status = Status.OK if value else Status.UNKNOWN
    return Finding(status, f"{_flow(labels)}: cluster {labels['cluster']} {answers}.")


def _lane(labels: Mapping[str, str], value: float, _: float) -> Finding | None:
    return None if value else Finding(Status.STOP, f"Streaming query {labels['query']} has ended.")


def _restarts(_: Mapping[str, str], value: float, __: float) -> Finding | None:
    said = f"Streaming queries ended with an error and were started again {value:,.0f} times; the log has the reasons."
    return Finding(Status.WARN, said) if value else None


def _conflict(labels: Mapping[str, str], value: float, _: float) -> Finding | None:
    said = f"{_flow(labels)}: another process serves it with other settings. During a rolling restart that is as it should be."
    return Finding(Status.WARN, said) if value else None


def _paused(labels: Mapping[str, str], value: float, _: float) -> Finding | None:
    said = f"{_flow(labels)}: {labels['topic']}-{labels.get('partition', '')} is paused by an error; the log has the reason."
    return Finding(Status.STALL, said) if value else None


def _lost(labels: Mapping[str, str], value: float, _: float) -> Finding | None:
    said = f"{_flow(labels)}: {value:,.0f} records of {labels['topic']} were deleted at the source before they were copied."
    return Finding(Status.LOST, said) if value else None


def _differs(labels: Mapping[str, str], value: float, _: float) -> Finding | None:
    said = f"{_flow(labels)}: verify found {value:,.0f} records of {labels['topic']} that differ on the target."
    return Finding(Status.LOST, said) if value else None


def _nothing(labels: Mapping[str, str], value: float, _: float) -> Finding | None:
    return (
        None if value else Finding(Status.WARN, f"{_flow(labels)}: no topic matches its settings, it mirrors nothing.")
    )


def _skew(labels: Mapping[str, str], value: float, _: float) -> Finding | None:
    ahead = "ahead of" if value > 0 else "behind"
    said = f"The clock of cluster {labels['cluster']} is at least {duration(abs(value))} {ahead} this machine's."
    return Finding(Status.WARN, said) if abs(value) > SKEW_S else None


def _heartbeat(labels: Mapping[str, str], value: float, now_s: float) -> Finding:
    age_s = max(0.0, now_s - value)
    status = Status.OK if age_s <= FRESH_S else Status.STOP
    return Finding(status, f"{_flow(labels)}: the target took a heartbeat {duration(age_s)} ago.")


def _throttled(labels: Mapping[str, str], value: float, _: float) -> Finding | None:
    said = f"{_flow(labels)}: quotas of cluster {labels['cluster']} held it up for {duration(value)} since the start."
    return Finding(Status.WARN, said) if value else None


def _unread(_: Mapping[str, str], value: float, __: float) -> Finding | None:
    return Finding(Status.WARN, f"{value:,.0f} reports of Spark could not be read.") if value else None


def _dropped(_: Mapping[str, str], value: float, __: float) -> Finding | None:
    said = f"{value:,.0f} series are folded or left out by mirror.metrics.max.series."
    return Finding(Status.WARN, said) if value else None


_TOLD: dict[str, _Told] = {
    "kafka_mirror_last_progress_timestamp_seconds": _reported,
    "kafka_mirror_cluster_up": _cluster,
    "kafka_mirror_query_active": _lane,
    "kafka_mirror_query_restarts_total": _restarts,
    "kafka_mirror_settings_conflict": _conflict,
    "kafka_mirror_partition_paused": _paused,
    "kafka_mirror_records_lost_total": _lost,
    "kafka_mirror_verify_differences_total": _differs,
    "kafka_mirror_matched_topics": _nothing,
    "kafka_mirror_cluster_clock_skew_seconds": _skew,
    "kafka_mirror_last_heartbeat_timestamp_seconds": _heartbeat,
    "kafka_mirror_throttled_seconds_total": _throttled,
    "kafka_mirror_listener_errors_total": _unread,
    "kafka_mirror_dropped_series": _dropped,
}


def _slots(exposition: str) -> Iterator[Finding]:
    """Say how many slots of each flow this process serves, and how many processes there are."""
    names = {f"kafka_mirror_{name}": name for name in ("slots", "slots_owned", "processes")}
    flows: dict[str, dict[str, int]] = {}
    for sample in samples(exposition, names):
        flows.setdefault(_flow(sample.labels), {})[names[sample.name]] = int(sample.value)
    for flow, own in flows.items():
        if len(own) < len(names):
            continue
        is_short = own["processes"] == 1 and own["slots_owned"] < own["slots"]
        processes = "1 process" if own["processes"] == 1 else f"{own['processes']:,} processes"
        said = f"{flow}: this process serves {own['slots_owned']} of its {own['slots']} slots; {processes} in all."
        yield Finding(Status.STOP if is_short else Status.OK, said)


def _spent(exposition: str) -> Iterator[Finding]:
    flows = {
        (sample.labels["source"], sample.labels["target"])
        for sample in samples(exposition, ("kafka_mirror_slot_seconds_total",))
    }
    for source, target in sorted(flows):
        said = limit(spent_on(exposition, source, target))
        if said:
            yield Finding(Status.OK, f"{source}->{target}: {said}.")
