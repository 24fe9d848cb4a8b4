"""Set the metric that answers whether one may fail over, from what a process knows at a scrape."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any

from metrics.cap import Labels
from metrics.process_status import ProcessStatus
from metrics.verdict import Status
from mirror.lag.failover import Facts, ServedFacts, judged, served_facts

ANSWER = "kafka_mirror_failover_answer"


def answer_failover(
    families: Mapping[str, dict[Labels, Any]], *, now_s: float, flows: Set[Labels], telling_groups: Set[Labels]
) -> None:
    """Add the answer of each flow that this process serves a part of.

    Args:
        families: Series of a snapshot by family, of now; changed.
        now_s: The present, epoch seconds.
        flows: The flows to answer for.
        telling_groups: Those of which this process is to know what became of consumer groups' offsets.
    """
    served: dict[Labels, list[Labels]] = {flow: [] for flow in flows}
    for labels in families["kafka_mirror_partition_status"]:
        if labels[:2] in served:
            served[labels[:2]].append(labels)
    status = ProcessStatus.of(families)
    for flow, partitions in served.items():
        found = served_facts(status, "->".join(flow))
        if found.groups is None and flow not in telling_groups:  # another process reports them
            found = replace(found, groups={})
        families[ANSWER][flow] = float(judged(_facts(families, flow, partitions, now_s, found)).answer)


def _facts(
    families: Mapping[str, dict[Labels, Any]],
    flow: Labels,
    partitions: list[Labels],
    now_s: float,
    served: ServedFacts,
) -> Facts:
    lag, status = families["kafka_mirror_lag_records"], families["kafka_mirror_partition_status"]
    known = [labels for labels in partitions if labels in lag and status[labels] != Status.UNKNOWN]
    waits = [families["kafka_mirror_lag_seconds"].get(labels) for labels in known if lag[labels]]
    up = families["kafka_mirror_cluster_up"]
    read_s = families["kafka_mirror_last_poll_timestamp_seconds"].get(flow, 0.0)
    return Facts(
        flow="->".join(flow),
        source_up=up.get((*flow, flow[0])) == 1,
        target_up=up.get((*flow, flow[1])) == 1,
        partitions=len(partitions),
        unknown=len(partitions) - len(known),
        absent=["-".join(labels[2:]) for labels in partitions if status[labels] == Status.ABSENT],
        missing=int(sum(lag[labels] for labels in known)),
        waits_s=None if None in waits else max((wait for wait in waits if wait is not None), default=0.0),
        age_s=now_s - read_s,
        groups=served.groups,
        reread=served.reread,
        differences=served.differences,
        unserved=served.unserved,
    )
