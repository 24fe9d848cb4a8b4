"""Make the status of a process from the lines of an exposition, which are quick to write and to read."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from metrics.process_status import ProcessStatus, Sample


def status_of(exposition: str) -> ProcessStatus:
    """Return the status that has these series."""
    found: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(Sample(sample.name, sample.labels, sample.value))
    return ProcessStatus(found)
