"""Say a verdict so that no colour need be seen: a word, a shape, a meaning, and a colour beside them. No Streamlit."""

from __future__ import annotations

from metrics.verdict import Status

SHAPES = {
    Status.IDLE: "○",
    Status.OK: "●",
    Status.WARN: "▲",
    Status.UNKNOWN: "?",
    Status.STOP: "■",
    Status.STALL: "■",
    Status.REWIND: "◀",
    Status.LOST: "✖",
    Status.ABSENT: "✖",
}
MEANING = {
    Status.IDLE: "a consumer group without members: nobody reads",
    Status.OK: "level, keeps pace, or catches up",
    Status.WARN: "copies, but falls behind",
    Status.UNKNOWN: "not known: a cluster has not answered",
    Status.STOP: "the flow has reported nothing",
    Status.STALL: "stands still while records wait",
    Status.REWIND: "the position went back",
    Status.LOST: "records were deleted before they were copied",
    Status.ABSENT: "not on the target, so nothing of it is copied",
}
# Streamlit's names, for its Markdown and its labels; every other verdict is red.
COLOURS = {Status.IDLE: "gray", Status.OK: "green", Status.WARN: "orange", Status.UNKNOWN: "violet"}
# The class of the style sheets (app/parts/verdicts.css), by verdict.
TONES = {Status.IDLE: "idle", Status.OK: "ok", Status.WARN: "warn", Status.UNKNOWN: "unknown"}


def shown(status: Status) -> str:
    """Return a verdict as shape and word."""
    return f"{SHAPES[status]} {status.name}"


def coloured(status: Status) -> str:
    """Return a verdict as shape and word in its colour, as Streamlit's Markdown writes it."""
    return f":{colour(status)}[{shown(status)}]"


def colour(status: Status) -> str:
    """Return Streamlit's name of a verdict's colour."""
    return COLOURS.get(status, "red")


def tone(status: Status) -> str:
    """Return the class that a style sheet colours a verdict by."""
    return TONES.get(status, "ill")
