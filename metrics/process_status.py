"""Report the state of a process as JSON for `/api/v1/status`."""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple

from metrics.catalogue import BY_NAME, CATALOGUE
from metrics.series import Labels

# The status has only the faults of single partitions: other facts about partitions are read from the clusters.
_FAULTS = (
    "kafka_mirror_partition_paused",
    "kafka_mirror_records_lost_total",
    "kafka_mirror_verify_differences_total",
)
_OF_PARTITIONS = frozenset(spec.name for spec in CATALOGUE if "partition" in spec.labels)
_HISTOGRAMS = frozenset(spec.name for spec in CATALOGUE if spec.kind == "histogram")


class Sample(NamedTuple):
    """A series at one moment; `name` is its metric family, `labels` has values by name."""

    name: str
    labels: Mapping[str, str]
    value: float

    @property
    def flow(self) -> str:
        """Name of the series' flow."""
        return flow_of(self.labels)


def flow_of(labels: Mapping[str, str]) -> str:
    """Return the name of the flow that labels belong to."""
    return f"{labels.get('source', '')}->{labels.get('target', '')}"


class ProcessStatus:
    """The series of flows, slots, groups and topics, and the faults of partitions."""

    def __init__(self, found: Mapping[str, list[Sample]]) -> None:
        """`found` has the series by metric family."""
        self._found = found

    @classmethod
    def of(cls, families: Mapping[str, Mapping[Labels, Any]]) -> ProcessStatus:
        """Return the status of a recorder's snapshot."""
        return cls({name: list(_samples(name, series)) for name, series in families.items() if _is_part(name)})

    @classmethod
    def parse(cls, text: str) -> ProcessStatus:
        """Parse `text`; raises ValueError if it is not a process status."""
        try:
            families = json.loads(text)["families"]
            return cls(
                {name: [Sample(name, dict(of), float(value)) for of, value in each] for name, each in families.items()}
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not the status of a process: {error!r}") from error

    def text(self) -> str:
        """Return the status as JSON: pairs of labels and value by metric family."""
        families = {name: [(each.labels, each.value) for each in found] for name, found in self._found.items() if found}
        return json.dumps({"families": families})

    def samples(self, names: Container[str]) -> Iterator[Sample]:
        """Yield the series of some metric families."""
        for name, found in self._found.items():
            if name in names:
                yield from found


def _is_part(name: str) -> bool:
    return name in BY_NAME and name not in _HISTOGRAMS and (name in _FAULTS or name not in _OF_PARTITIONS)


def _samples(name: str, series: Mapping[Labels, Any]) -> Iterator[Sample]:
    for labels, value in series.items():
        if math.isfinite(value) and (value or name not in _FAULTS):
            yield Sample(name, dict(zip(BY_NAME[name].labels, labels, strict=True)), float(value))
