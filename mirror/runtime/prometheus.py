"""Query a Prometheus server, which has the history that the lag inspector draws."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mirror.errors import MirrorError

TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringAlert:
    """A firing alert: its labels, its start, and its rule's texts. A missing link is ""."""

    name: str
    labels: Mapping[str, str]
    since: str
    summary: str
    runbook: str
    board: str
    inspector: str

    @property
    def is_critical(self) -> bool:
        """Whether the alert wakes an operator."""
        return self.labels.get("severity") == "critical"


class Prometheus:
    """A Prometheus server. `url` is its address."""

    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise MirrorError(f'"{url}" is no address of a Prometheus. Write one like http://127.0.0.1:9090.')
        self.url = url.rstrip("/")

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Return the result of an instant query: `metric` and `value` of each series.

        Raises:
            MirrorError: the server refuses the query; the message has the reason and the path.
        """
        return self._result("query", {"query": expr})

    def query_range(self, expr: str, *, start_s: float, end_s: float, step_s: float) -> list[dict[str, Any]]:
        """Return the result of a range query: `metric` and `values` of each series."""
        parameters = {"query": expr, "start": str(start_s), "end": str(end_s), "step": str(step_s)}
        return self._result("query_range", parameters)

    def alerts(self) -> dict[str, str]:
        """Return the state of each alert, pending or firing, by name; firing wins."""
        states: dict[str, str] = {}
        for alert in self._get("/api/v1/alerts")["data"]["alerts"]:
            name = alert["labels"]["alertname"]
            if states.get(name) != "firing":
                states[name] = alert["state"]
        return states

    def firing(self) -> list[FiringAlert]:
        """Return the alerts that fire now, with the annotations of their rules."""
        return [
            FiringAlert(
                name=alert["labels"]["alertname"],
                labels=alert["labels"],
                since=alert["activeAt"][:19].replace("T", " ") + " UTC",
                summary=alert["annotations"].get("summary", ""),
                runbook=alert["annotations"].get("runbook_url", ""),
                board=alert["annotations"].get("dashboard_url", ""),
                inspector=alert["annotations"].get("inspector_url", ""),
            )
            for alert in self._get("/api/v1/alerts")["data"]["alerts"]
            if alert["state"] == "firing"
        ]

    def alertmanagers(self) -> list[str]:
        """Return the addresses of the Alertmanagers to which the server sends alerts."""
        found = self._get("/api/v1/alertmanagers")["data"]["activeAlertmanagers"]
        return [each["url"].partition("/api/")[0] for each in found]

    def _result(self, what: str, parameters: dict[str, str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get(f"/api/v1/{what}?{urllib.parse.urlencode(parameters)}")["data"][
            "result"
        ]
        return found

    def _get(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(self.url + path, timeout=TIMEOUT_S) as answer:  # noqa: S310 - our own server
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                reason = error.read().decode(errors="replace")
            raise MirrorError(f"Prometheus at {self.url} refuses {path}: {reason.strip()}") from error
        except (urllib.error.URLError, TimeoutError) as error:
            raise MirrorError(f"Prometheus at {self.url} does not respond: {error}") from error
