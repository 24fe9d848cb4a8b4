"""Hold what a team sets about the rules: which targets are the mirror's, what is too late, where links lead."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """Selector, thresholds and addresses of the generated rules; the defaults are those of the files in the repository.

    Attributes:
        selector: Matchers of the scrape job, for the series that are not the mirror's own (`up`, `process_*`).
        rpo_warning_s: A topic whose first unreplicated record waits longer is worth a look. A number, or its placeholder.
        rpo_critical_s: And longer than this, worth waking somebody.
        runbook: Address of the runbook, for links.
        grafana: Address of Grafana.
        inspector: Address of the lag inspector, "" for no links to it.
    """

    selector: str = 'job="kafka-mirror"'
    rpo_warning_s: int | str = 300
    rpo_critical_s: int | str = 1800
    runbook: str = "docs/runbook.md"
    grafana: str = "http://localhost:3000"
    inspector: str = ""


DEFAULT = Monitoring()
# For the Helm chart and the mixin, which fill in what a team sets: `@selector@`, and so on.
PLACEHOLDERS = Monitoring(**{each.name: f"@{each.name}@" for each in fields(Monitoring)})
