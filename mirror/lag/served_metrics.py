"""Read what an appliance says on /metrics of things that only it knows."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from mirror.lag.failover import ServedFacts

_STATES = "kafka_mirror_group_partitions"
_REREAD = "kafka_mirror_failover_reread_records"
_CHECKPOINTS = "kafka_mirror_checkpoints_total"
_DIFFERENCES = "kafka_mirror_verify_differences_total"
_SLOTS, _OWNED, _PROCESSES = (f"kafka_mirror_{name}" for name in ("slots", "slots_owned", "processes"))

NOTHING = ServedFacts(groups=None, reread={}, differences=None, unserved=None)


def samples(exposition: str, names: Container[str]) -> Iterator[Any]:
    """Yield the samples of some families; raises ValueError where the text is no exposition."""
    # Before the parser: the topics' series may be a quarter of a million lines, and none of them is asked for.
    kept = "\n".join(line for line in exposition.split("\n") if re.split("[{ ]", line, maxsplit=1)[0] in names)
    for family in text_string_to_metric_families(f"{kept}\n"):
        yield from (sample for sample in family.samples if sample.name in names)


def flow_of(labels: Mapping[str, str]) -> str:
    """Return the name of the flow that labels are of."""
    return f"{labels.get('source', '')}->{labels.get('target', '')}"


def served_facts(exposition: str, source: str, target: str) -> ServedFacts:
    """Return what an appliance serves of one flow."""
    return served_by_flow(exposition).get((source, target), NOTHING)


def served_by_flow(exposition: str) -> dict[tuple[str, str], ServedFacts]:
    """Return what an appliance serves of each flow, by source and target; the text is read once for all of them."""
    flows: dict[tuple[str, str], list[Any]] = {}
    for sample in samples(exposition, (_STATES, _REREAD, _CHECKPOINTS, _DIFFERENCES, _SLOTS, _OWNED, _PROCESSES)):
        flows.setdefault((sample.labels["source"], sample.labels["target"]), []).append(sample)
    return {flow: _facts(found) for flow, found in flows.items()}


def _facts(found: Iterable[Any]) -> ServedFacts:
    groups: dict[str, dict[str, int]] = {}
    reread: dict[str, int] = {}
    single: dict[str, float] = {}
    for sample in found:
        labels = sample.labels
        if sample.name == _STATES:
            groups.setdefault(labels["group"], {})[labels["state"]] = int(sample.value)
        elif sample.name == _REREAD:
            reread[labels["group"]] = int(sample.value)
        else:
            single[sample.name] = single.get(sample.name, 0.0) + sample.value
    is_alone = single.get(_PROCESSES) == 1  # else others may serve what this one does not
    return ServedFacts(
        groups=groups if groups or _CHECKPOINTS in single else None,  # counted, if only 0, since the first round
        reread=reread,
        differences=int(single[_DIFFERENCES]) if _DIFFERENCES in single else None,
        unserved=int(single[_SLOTS] - single[_OWNED]) if is_alone and {_SLOTS, _OWNED} <= single.keys() else None,
    )
