"""Show a status by word, shape, meaning and colour, never by colour alone. No Streamlit."""

from __future__ import annotations

from metrics.partition_status import Status

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
    Status.IDLE: "a consumer group without members: no consumer reads",
    Status.OK: "caught up, keeping pace, or catching up",
    Status.WARN: "copying, but falling behind",
    Status.UNKNOWN: "a cluster has not responded, or there are too few polls yet",
    Status.STOP: "the flow reports nothing",
    Status.STALL: "records are waiting and none is copied",
    Status.REWIND: "the position went back",
    Status.LOST: "records were deleted before they were copied",
    Status.ABSENT: "not on the target, so nothing is copied",
}
# Sentences about a flow, by its worst status.
HEADLINES = {
    Status.IDLE: "{flow} is idle",
    Status.WARN: "{flow} is falling behind",
    Status.UNKNOWN: "Status of {flow} is unknown",
    Status.STOP: "{flow} has stopped: it reports nothing",
    Status.STALL: "{flow} is stalled: records are waiting and none is copied",
    Status.REWIND: "{flow} was rewound: a position went back",
    Status.LOST: "{flow} has lost records: they were deleted before they were copied",
    Status.ABSENT: "{flow} is incomplete: partitions are not on the target",
}
# Streamlit's colour names, for its Markdown and labels; every other status is red.
COLOURS = {Status.IDLE: "gray", Status.OK: "green", Status.WARN: "orange", Status.UNKNOWN: "violet"}
# The class in the style sheets (app/parts/statuses.css), by status.
TONES = {Status.IDLE: "idle", Status.OK: "ok", Status.WARN: "warn", Status.UNKNOWN: "unknown"}


def shown(status: Status) -> str:
    """Return a status as shape and word."""
    return f"{SHAPES[status]} {status.name}"


def coloured(status: Status) -> str:
    """Return a status as shape and word in its colour, in Streamlit's Markdown."""
    return f":{colour(status)}[{shown(status)}]"


def colour(status: Status) -> str:
    """Return the name of a status' colour in Streamlit."""
    return COLOURS.get(status, "red")


def tone(status: Status) -> str:
    """Return the style sheet class of a status' colour."""
    return TONES.get(status, "ill")
