"""Make the rules file that Prometheus reads: recording and alerting rules. Pure: `rules()` is what the YAML holds."""

from __future__ import annotations

from typing import Any

from dashboards.alerts import alerts
from dashboards.monitoring import DEFAULT, Monitoring
from dashboards.recording import recording


def rules(monitoring: Monitoring = DEFAULT) -> dict[str, Any]:
    """Return the content of the rules file."""
    return {
        "groups": [
            {
                "name": "kafka-mirror-recording",
                "rules": [{"record": name, "expr": expr} for name, expr in recording().items()],
            },
            {"name": "kafka-mirror-alerts", "rules": [alert.rule(monitoring) for alert in alerts(monitoring)]},
        ]
    }
