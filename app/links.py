"""Write the addresses of the pages. Pure."""

from __future__ import annotations

from contextvars import ContextVar
from urllib.parse import urlencode

from metrics.lag_row import LagRow

# Name of the settings file whose pages are shown; "" if the inspector has only one file.
MIRROR: ContextVar[str] = ContextVar("mirror", default="")


def address(page: str, **parameters: str) -> str:
    """Return the address of a page with the parameters that are set."""
    query = urlencode({name: value for name, value in (*parameters.items(), ("mirror", MIRROR.get())) if value})
    return f"/{page}?{query}" if query else f"/{page}"


def of_row(row: LagRow) -> str:
    """Return the address of the page about one row."""
    return address("partition", group=row.group, cluster=row.cluster, topic=row.topic, partition=str(row.partition))
