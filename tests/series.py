"""Name the series of a metric family, as queries read them."""

from __future__ import annotations

from metrics.catalogue import MetricSpec


def series_names(spec: MetricSpec) -> tuple[str, ...]:
    """Return the names of the family's series: a classic histogram has three, one that Prometheus converted has its own."""
    if spec.kind == "histogram":
        return (spec.name, *(f"{spec.name}_{part}" for part in ("bucket", "count", "sum")))
    return (spec.name,)
