"""Hold the parameters of the generated rules: scrape job, thresholds, addresses of links."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """Parameters of the generated rules; the files in the repository use the defaults.

    Attributes:
        selector: Label matchers of the scrape job, for series without the mirror's prefix (`up`, `process_*`).
        rpo_warning_s: Time lag of a topic above which a warning fires: a number, or its placeholder.
        rpo_critical_s: Time lag of a topic above which a critical alert fires.
        runbook: Address of the runbook, for links.
        grafana: Address of Grafana.
        inspector: Address of the lag inspector; "": no links to it.
    """

    selector: str = 'job="kafka-mirror"'
    rpo_warning_s: int | str = 300
    rpo_critical_s: int | str = 1800
    runbook: str = "docs/runbook.md"
    grafana: str = "http://localhost:3000"
    inspector: str = ""


DEFAULT = Monitoring()
# For the Helm chart and the mixin, which replace the placeholders, such as `@selector@`.
PLACEHOLDERS = Monitoring(**{each.name: f"@{each.name}@" for each in fields(Monitoring)})
