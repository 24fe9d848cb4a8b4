"""Suggest the next step for a partition, as a sentence and a command. Pure."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from metrics.error_kind import ErrorKind
from metrics.lag_row import LagRow
from metrics.partition_status import Status
from mirror.config.properties import servers_of
from mirror.config.settings import Flow


class NextStep(NamedTuple):
    """The next step, and the command that executes it or shows more."""

    sentence: str
    command: str


def next_step(row: LagRow, flow: Flow | None, *, error: ErrorKind | None, file: str, process: str) -> NextStep | None:
    """Return the next step for a row, None if nothing needs to be done.

    Args:
        row: The row of a flow or of another group.
        flow: The flow that reads or writes the partition, None if unknown.
        error: Kind of the error because of which the process has paused the partition, None if it is not paused.
        file: Name of the settings file.
        process: Address of the process' metrics.
    """
    if row.status in (Status.OK, Status.IDLE) or flow is None:
        return None
    if not row.is_flow:
        group = shlex.quote(row.group)
        return NextStep(
            "See which member reads the partition.", f"{_tool('consumer-groups', flow)} --describe --group {group}"
        )
    return (_of_error(row, flow, error, file) if error else None) or _of_status(row, flow, file, process)


def _of_error(row: LagRow, flow: Flow, error: ErrorKind, file: str) -> NextStep | None:
    """Return the step that ends a pause; docs/runbook.md has the same steps."""
    remote, topic = shlex.quote(row.remote_topic), shlex.quote(row.topic)
    own = f"{shlex.quote(file)} {shlex.quote(flow.name)}"
    if error is ErrorKind.RECORD_TOO_LARGE:
        return NextStep(
            "Raise max.message.bytes of the target topic above the largest record batch of the source topic. "
            "If the flow copies topic settings, raise it on the source topic, too.",
            f"{_tool('configs', flow, is_target=True)} --alter --entity-type topics --entity-name {remote} "
            "--add-config max.message.bytes=BYTES",
        )
    if error is ErrorKind.TARGET_NOT_AUTHORIZED:
        return NextStep(
            "Allow the mirror's principal to write to the topic.",
            f"{_tool('acls', flow, is_target=True)} --add --allow-principal User:MIRROR --operation Write --topic {remote}",
        )
    if error is ErrorKind.SOURCE_NOT_AUTHORIZED:
        return NextStep(
            "Allow the mirror's principal to read the topic.",
            f"{_tool('acls', flow)} --add --allow-principal User:MIRROR --operation Read --topic {topic}",
        )
    if error is ErrorKind.OFFSETS_DIFFER:
        return NextStep(
            "Compare both logs. Then stop the mirror and create the remote topic again "
            "(kafka-mirror positions reset --recreate), which deletes its records.",
            f"kafka-mirror verify {own} --topic {topic}",
        )
    if error is ErrorKind.PAUSED_BY_OPERATOR:
        return NextStep(
            "Find out who paused the topic, and why. Then resume it.",
            f"kafka-mirror positions resume {own} --topic {topic}",
        )
    if error is ErrorKind.POSITION_REQUIRED:
        return NextStep("See the position, then set it.", f"kafka-mirror positions show {own} --topic {topic}")
    if error is ErrorKind.TARGET_UNAVAILABLE:
        return NextStep(
            "See which broker is missing, and start it.",
            f"{_tool('topics', flow, is_target=True)} --describe --topic {remote}",
        )
    return None


def _of_status(row: LagRow, flow: Flow, file: str, process: str) -> NextStep | None:
    topic, name, own = shlex.quote(row.topic), shlex.quote(flow.name), shlex.quote(file)
    if row.status is Status.UNKNOWN:
        if row.offset is not None and row.log_end is not None:
            return None  # there are too few polls yet
        is_target = row.log_end is not None
        alias = flow.target.alias if is_target else flow.source.alias
        return NextStep(
            f"Check that cluster {alias} responds.", _tool("broker-api-versions", flow, is_target=is_target)
        )
    return {
        Status.WARN: NextStep(
            "Watch whether the lag shrinks.", f"kafka-mirror lag {own} --watch --group {name} --topic {topic}"
        ),
        Status.STALL: NextStep("See the reason that the process reports.", f"curl -s http://{process}/errors"),
        Status.STOP: NextStep("Check that the process is ready.", f"curl -s http://{process}/ready"),
        Status.REWIND: NextStep("See which offsets are read again.", f"kafka-mirror gaps {own} {name} --topic {topic}"),
        Status.LOST: NextStep("See which offsets are lost.", f"kafka-mirror gaps {own} {name} --topic {topic}"),
        Status.ABSENT: NextStep("See why the partition is not on the target.", f"kafka-mirror plan {own}"),
    }[row.status]


def _tool(name: str, flow: Flow, *, is_target: bool = False) -> str:
    """Return the start of a command of Kafka's tools, for one of the flow's clusters."""
    servers = servers_of((flow.target if is_target else flow.source).client)
    return f"kafka-{name}.sh --bootstrap-server {shlex.quote(servers)}"
