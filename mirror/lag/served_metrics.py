"""Read what an appliance says on /metrics of things that only it knows."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from mirror.lag.failover import ServedFacts

_STATES = "kafka_mirror_group_partitions"
_REREAD = "kafka_mirror_failover_reread_records"
_CHECKPOINTS = "kafka_mirror_checkpoints_total"
_DIFFERENCES = "kafka_mirror_verify_differences_total"
_SLOTS, _OWNED, _PROCESSES = (f"kafka_mirror_{name}" for name in ("slots", "slots_owned", "processes"))


def samples(exposition: str, names: Container[str]) -> Iterator[Any]:
    """Yield the samples of some families; raises ValueError where the text is no exposition."""
    # Before the parser: the topics' series may be a quarter of a million lines, and none of them is asked for.
    kept = "\n".join(line for line in exposition.split("\n") if re.split("[{ ]", line, maxsplit=1)[0] in names)
    for family in text_string_to_metric_families(f"{kept}\n"):
        yield from (sample for sample in family.samples if sample.name in names)


def served_facts(exposition: str, source: str, target: str) -> ServedFacts:
    """Return what an appliance serves of one flow."""
    groups: dict[str, dict[str, int]] = {}
    reread: dict[str, int] = {}
    single: dict[str, float] = {}
    for sample in samples(exposition, (_STATES, _REREAD, _CHECKPOINTS, _DIFFERENCES, _SLOTS, _OWNED, _PROCESSES)):
        labels = sample.labels
        if (labels["source"], labels["target"]) != (source, target):
            continue
        if sample.name == _STATES:
            groups.setdefault(labels["group"], {})[labels["state"]] = int(sample.value)
        elif sample.name == _REREAD:
            reread[labels["group"]] = int(sample.value)
        else:
            single[sample.name] = single.get(sample.name, 0.0) + sample.value
    is_alone = single.get(_PROCESSES) == 1  # else others may serve what this one does not
    return ServedFacts(
        groups=groups if groups or single.get(_CHECKPOINTS) else None,
        reread=reread,
        differences=int(single[_DIFFERENCES]) if _DIFFERENCES in single else None,
        unserved=int(single[_SLOTS] - single[_OWNED]) if is_alone and {_SLOTS, _OWNED} <= single.keys() else None,
    )
