"""Answer a scrape in the format that it asks for."""

from __future__ import annotations

from collections.abc import Mapping

from metrics.cap import Labels, Value
from metrics.exposition import exposition
from metrics.formats import Format
from metrics.openmetrics import Began, openmetrics


def answer(
    wanted: Format,
    snapshot: Mapping[str, Mapping[Labels, Value]],
    began: Began,
    *,
    max_series: int,
    strimzi_names: bool = False,
) -> bytes:
    """Return the whole answer; arguments as for `openmetrics`."""
    if wanted is Format.OPENMETRICS:
        return openmetrics(snapshot, began, max_series=max_series, strimzi_names=strimzi_names).encode()
    return exposition(snapshot, max_series=max_series, strimzi_names=strimzi_names).encode()
