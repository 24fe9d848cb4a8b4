"""Hold the parameters of the generated rules: scrape job, thresholds, addresses of links."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """Parameters of the generated rules; the files in the repository have the defaults.

    Attributes:
        selector: Matchers of the scrape job, for series without the mirror's prefix (`up`, `process_*`).
        rpo_warning_s: Time lag of a topic above which a warning fires. A number, or its placeholder.
        rpo_critical_s: Time lag of a topic above which a critical alert fires.
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
# For the Helm chart and the mixin, which replace `@selector@`, and so on.
PLACEHOLDERS = Monitoring(**{each.name: f"@{each.name}@" for each in fields(Monitoring)})
