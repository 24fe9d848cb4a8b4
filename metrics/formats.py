"""Choose the exposition format that a scraper asks for. Pure."""

from __future__ import annotations

from enum import Enum

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST


class Format(Enum):
    """An exposition format, by its content type."""

    TEXT = CONTENT_TYPE_PLAIN_0_0_4
    OPENMETRICS = CONTENT_TYPE_LATEST


# What a media range must say, or leave open. What Prometheus knows as OpenMetrics 0.0.1 is the same text.
_WANTED: dict[Format, tuple[str, dict[str, tuple[str, ...]]]] = {
    Format.OPENMETRICS: ("application/openmetrics-text", {"version": ("1.0.0", "0.0.1")}),
    Format.TEXT: ("text/plain", {"version": ("0.0.4",)}),
}
_WITHOUT_ASKING = Format.TEXT


def negotiated(accept: str) -> Format:
    """Return the format with the largest quality value in an Accept header; the classic text where none is acceptable.

    A format must be named to be chosen over the text: browsers, curl and other tools that take anything get the text. As
    RFC 9110 has it, the most specific range that matches a format says its quality, and 0 rules it out.
    """
    best, best_quality = _WITHOUT_ASKING, 0.0
    ranges = [_range(part) for part in accept.split(",") if part.strip()]
    for candidate in Format:
        found = [
            (specificity, quality)
            for media, parameters, quality in ranges
            if (specificity := _specificity(candidate, media, parameters)) is not None
        ]
        if found and (quality := max(found)[1]) > 0 and quality >= best_quality:
            best, best_quality = candidate, quality
    return best


def _range(part: str) -> tuple[str, dict[str, str], float]:
    media, *given = (piece.strip() for piece in part.lower().split(";"))
    parameters = {name.strip(): value.strip().strip('"') for name, _, value in (each.partition("=") for each in given)}
    try:
        quality = float(parameters.pop("q", "1"))
    except ValueError:
        quality = 0.0
    return media, parameters, quality if 0 <= quality <= 1 else 0.0


def _specificity(candidate: Format, media: str, parameters: dict[str, str]) -> int | None:
    """Return how specific a range is that a format matches, None where it does not match."""
    wanted, allowed = _WANTED[candidate]
    if candidate is _WITHOUT_ASKING and media in ("*/*", "text/*"):
        return int(media == "text/*")
    if media != wanted or any(parameters.get(name, values[0]) not in values for name, values in allowed.items()):
        return None
    return 2 + len(allowed.keys() & parameters.keys())
