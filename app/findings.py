"""Describe the status of a process in sentences. No Streamlit, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from metrics.error_kind import ErrorKind
from metrics.last_errors import LastError
from metrics.objective import FRESH_S
from metrics.partition_status import Status
from metrics.process_status import ProcessStatus, flow_of
from mirror.lag.text import duration

_PAUSED = "kafka_mirror_partition_paused"
SKEW_S = 2.0  # smaller differences do not matter to a reader


class Finding(NamedTuple):
    """The result of one check: its status and a sentence."""

    status: Status
    sentence: str


def findings(status: ProcessStatus, now_s: float, errors: Iterable[LastError] = ()) -> list[Finding]:
    """Return the results of all checks, worst first; `errors` are the reasons of paused partitions."""
    errors = [error for error in errors if error.kind is not ErrorKind.PAUSED_BY_OPERATOR]  # not a failed check
    found = [_paused(error) for error in errors if error.until_s is None]
    explained = {(error.source, error.target, error.topic, str(error.partition)) for error in errors}
    found += [
        finding
        for sample in status.samples(_CHECKS)
        for finding in (_CHECKS[sample.name](sample.labels, sample.value, now_s),)
        if finding is not None and not (sample.name == _PAUSED and _place(sample.labels) in explained)
    ]
    found += _slots(status)
    found += _spent(status)
    return sorted(found, key=lambda finding: -finding.status)


def _paused(error: LastError) -> Finding:
    flow, place = f"{error.source}->{error.target}", f"{error.topic}-{error.partition}"
    return Finding(Status.STALL, f"{flow}: {place} is paused: {error.reason}")


def _place(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(labels[name] for name in ("source", "target", "topic", "partition"))


def spent_on(status: ProcessStatus) -> dict[str, dict[str, float]]:
    """Return how each flow's slots have spent their time, in shares of it."""
    flows: dict[str, dict[str, float]] = {}
    for sample in status.samples(("kafka_mirror_slot_seconds_total",)):
        spent, what = flows.setdefault(flow_of(sample.labels), {}), sample.labels["spent_on"]
        spent[what] = spent.get(what, 0.0) + sample.value
    return {
        flow: {what: s / total for what, s in spent.items()}
        for flow, spent in flows.items()
        if (total := sum(spent.values()))
    }


def limit(shares: Mapping[str, float]) -> str:
    """Return the activity on which a flow spends most of its time, "" if unknown."""
    if not shares:
        return ""
    what, share = max(shares.items(), key=lambda each: each[1])
    activity = {
        "source": "waiting for records from the source",
        "target": "waiting for acknowledgements from the target",
        "packing": "decoding and encoding batches, which takes this machine's CPU",
        "lease": "waiting for the process that served its slots before",
    }
    return f"{activity.get(what, what)}, {share:.0%} of the time since the process started"


def throttled(status: ProcessStatus, flow: str) -> list[str]:
    """Return a sentence for each cluster whose quotas throttled a flow."""
    return [
        f"Quotas of cluster {sample.labels['cluster']} throttled the flow for {duration(sample.value)}"
        for sample in status.samples(("kafka_mirror_throttled_seconds_total",))
        if flow_of(sample.labels) == flow and sample.value
    ]


_Check = Callable[[Mapping[str, str], float, float], Finding | None]


def _recent(sentence: str) -> _Check:
    """Return a check of an event's age; OK while the event is recent."""

    def check(labels: Mapping[str, str], value: float, now_s: float) -> Finding:
        age_s = max(0.0, now_s - value)
        status = Status.OK if age_s <= FRESH_S else Status.STOP
        return Finding(status, sentence.format(flow=flow_of(labels), ago=duration(age_s)))

    return check


def _when(is_so: Callable[[float], bool], status: Status, sentence: str) -> _Check:
    """Return a check that reports a sentence if a value meets a condition, else nothing."""

    def check(labels: Mapping[str, str], value: float, _: float) -> Finding | None:
        words = {"partition": "", **labels, "flow": flow_of(labels), "value": value, "lasting": duration(abs(value))}
        return Finding(status, sentence.format(**words)) if is_so(value) else None

    return check


def _is_any(value: float) -> bool:
    return bool(value)


def _is_none(value: float) -> bool:
    return not value


def _cluster(labels: Mapping[str, str], value: float, _: float) -> Finding:
    responds = "responds" if value else "does not respond"
    status = Status.OK if value else Status.UNKNOWN
    return Finding(status, f"{flow_of(labels)}: cluster {labels['cluster']} {responds}.")


def _skew(labels: Mapping[str, str], value: float, _: float) -> Finding | None:
    ahead = "ahead of" if value > 0 else "behind"
    sentence = f"The clock of cluster {labels['cluster']} is at least {duration(abs(value))} {ahead} this machine's."
    return Finding(Status.WARN, sentence) if abs(value) > SKEW_S else None


_CHECKS: dict[str, _Check] = {
    "kafka_mirror_last_progress_timestamp_seconds": _recent("{flow}: the last window reported {ago} ago."),
    "kafka_mirror_cluster_up": _cluster,
    "kafka_mirror_query_active": _when(_is_none, Status.STOP, "Streaming query {query} has ended."),
    "kafka_mirror_query_restarts_total": _when(
        _is_any,
        Status.WARN,
        "Streaming queries failed and were restarted {value:,.0f} times; the log shows the reasons.",
    ),
    "kafka_mirror_settings_conflict": _when(
        _is_any,
        Status.WARN,
        "{flow}: another process serves it with different settings. During a rolling restart, this is normal.",
    ),
    _PAUSED: _when(
        _is_any, Status.STALL, "{flow}: {topic}-{partition} is paused by an error; the log shows the reason."
    ),
    "kafka_mirror_records_lost_total": _when(
        _is_any,
        Status.LOST,
        "{flow}: {value:,.0f} records of {topic} were deleted at the source before they were copied.",
    ),
    "kafka_mirror_verify_differences_total": _when(
        _is_any, Status.LOST, "{flow}: verify found {value:,.0f} records of {topic} that differ on the target."
    ),
    "kafka_mirror_matched_topics": _when(
        _is_none, Status.WARN, "{flow}: no topic matches its settings; it replicates nothing."
    ),
    "kafka_mirror_cluster_clock_skew_seconds": _skew,
    "kafka_mirror_last_heartbeat_timestamp_seconds": _recent("{flow}: the target acknowledged a heartbeat {ago} ago."),
    "kafka_mirror_throttled_seconds_total": _when(
        _is_any,
        Status.WARN,
        "{flow}: quotas of cluster {cluster} throttled it for {lasting} since the process started.",
    ),
    "kafka_mirror_listener_errors_total": _when(
        _is_any, Status.WARN, "{value:,.0f} reports of Spark could not be read."
    ),
    "kafka_mirror_dropped_series": _when(
        _is_any, Status.WARN, "mirror.metrics.max.series folded or removed {value:,.0f} series."
    ),
}


def _slots(status: ProcessStatus) -> Iterator[Finding]:
    """Report how many slots of each flow this process serves, and its processes."""
    names = {f"kafka_mirror_{name}": name for name in ("slots", "slots_owned", "processes")}
    flows: dict[str, dict[str, int]] = {}
    for sample in status.samples(names):
        flows.setdefault(flow_of(sample.labels), {})[names[sample.name]] = int(sample.value)
    for flow, own in flows.items():
        if len(own) < len(names):
            continue
        is_short = own["processes"] == 1 and own["slots_owned"] < own["slots"]
        processes = "1 process" if own["processes"] == 1 else f"{own['processes']:,} processes"
        sentence = f"{flow}: this process serves {own['slots_owned']} of {own['slots']} slots; {processes} in total."
        yield Finding(Status.STOP if is_short else Status.OK, sentence)


def _spent(status: ProcessStatus) -> Iterator[Finding]:
    for flow, shares in sorted(spent_on(status).items()):
        yield Finding(Status.OK, f"{flow}: {limit(shares)}.")
