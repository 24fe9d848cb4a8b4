"""Run `kafka-mirror positions ACTION`: show, set or hand back a flow's positions; pause topics."""

from __future__ import annotations

import re
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from mirror.commands.options import add_flow, describe
from mirror.config.given import add_mirror, settings_given
from mirror.config.settings import Flow, Settings
from mirror.errors import ClusterRefuses, ClusterUnavailable, SettingsError
from mirror.flows.gaps import note
from mirror.flows.hand_back import hand_back
from mirror.flows.selection import flow_named, selected
from mirror.flows.stored_positions import (
    Position,
    is_served,
    paused_topics,
    read_positions,
    write_paused,
    write_positions,
)
from mirror.flows.takeover import refuse_running
from mirror.flows.topics import TopicPair, ensure_remote, flow_plan, matched
from mirror.kafka.cluster import Cluster
from mirror.lag.cluster_offsets import log_bounds
from mirror.model.flow_plan import FlowPlan, PlannedPartition
from mirror.model.gaps import Gap, set_by_operator
from mirror.model.paused_topics import Paused
from mirror.model.position_metadata import PositionMetadata
from mirror.model.slot_lease import DEAD_AFTER_S
from mirror.model.topic_partition import TopicPartition
from mirror.runtime.text_columns import aligned

DELETED_S = 30.0  # limit for brokers to remove a deleted topic
LOOK_S = 0.2
COLUMNS = ("topic", "partition", "position", "log start", "log end", "lag", "remote topic", "")


DESCRIPTION = """\
Show a flow's position on each partition, or set positions before the flow starts: to start at a time or an offset, to skip
records, or to replicate records again (the target then has them twice). Setting is refused while the flow runs. Topics of a
running flow can be paused and resumed within a second; a pause lasts until you resume them. To return to MirrorMaker 2, stop
the flow, export its positions, and start MirrorMaker."""
EXAMPLES = """\
examples:
  kafka-mirror positions show mirror.properties 'a->b'
  kafka-mirror positions set mirror.properties 'a->b' --to 2026-01-31T12:00:00Z              before the first start
  kafka-mirror positions set mirror.properties 'a->b' --topic orders --partition 3 --to 4711
  kafka-mirror positions reset mirror.properties 'a->b' --topic 'orders|payments'
  kafka-mirror positions reset mirror.properties 'a->b' --topic orders --recreate            empty the remote topic first
  kafka-mirror positions export mirror.properties 'a->b' --to mm2                            back to MirrorMaker 2
  kafka-mirror positions pause mirror.properties 'a->b' --topic 'audit.*'
prints, for example:
  topic   partition  position  log start  log end  lag  remote topic
  orders          0       200          0      200    0  a.orders
  orders          1       150          0      200   50  a.orders
exit codes: 0 done, 2 settings, or the flow runs, 3 a cluster did not respond, 6 it refused"""


ACTIONS = {
    "show": "print positions",
    "set": "set positions",
    "reset": "replicate again from the start",
    "export": "write them for MirrorMaker 2",
    "pause": "pause topics, also while the flow runs",
    "resume": "resume them",
}


def declare(parser: ArgumentParser) -> None:
    """Add the command's actions and their options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    actions = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    for action, what in ACTIONS.items():
        one = actions.add_parser(action, help=what)
        add_mirror(one)
        add_flow(one)
        one.set_defaults(partition=None)
        if action not in ("pause", "resume"):
            one.add_argument("--partition", type=int, metavar="N", help="only this partition")
        if action == "set":
            one.add_argument(
                "--to", required=True, metavar="WHERE", help="earliest, latest, an offset, or a time (ISO 8601)"
            )
        if action == "export":
            one.add_argument("--to", choices=["mm2"], default="mm2", help="format (default mm2)")
        if action == "reset":
            one.add_argument(
                "--recreate",
                action="store_true",
                help="delete the remote topics and create them again, so that no record is there twice",
            )
        if action in ("set", "reset", "export"):
            one.add_argument("--force", action="store_true", help="even if the flow seems to run")


def run(parsed: Namespace) -> int:
    """Show or change positions; return the exit code."""
    return positions(settings_given(parsed), parsed)


def positions(settings: Settings, args: Namespace) -> int:
    """Show, set or reset positions, or pause or resume topics; return 0.

    Raises:
        SettingsError: the flow is unknown or runs, or `--to` is not a position.
        ClusterUnavailable: a cluster did not respond.
    """
    flow = flow_named(settings, args.flow, command="positions")
    source, target = Cluster(flow.source.alias, flow.source_admin), Cluster(flow.target.alias, flow.target_admin)
    topics, on_target = matched(flow, source.topics()), target.topics()
    remote = {name: topic.partitions for name, topic in on_target.items()}
    if args.action in ("set", "reset"):
        # A broker keeps a position only if its topic exists.
        remote = ensure_remote(flow, topics, on_target, source, target).partitions
    plan = flow_plan(flow, topics, remote)
    places = selected(plan.partitions, args.topic, args.partition, flow=flow.name, command="positions")
    found = read_positions(flow)
    if args.action in ("pause", "resume"):
        paused = _paused(found, plan, args)
        found[plan.paused_key] = Position(0, paused.text())
    if args.action in ("show", "pause", "resume"):
        text = _text(plan, places, found, source)  # before anything is written: a pattern may take too long to match
        if args.action != "show":
            write_paused(flow, plan, paused)
        print(text)
        return 0
    if (
        is_served(found, plan.lease_topic, window_ms=settings.mirror.window_ms, now_ms=time.time() * 1000)
        and not args.force
    ):
        raise SettingsError(
            f"positions: {flow.name} runs, and would write its own positions over yours. Stop it first; after a crash wait "
            f"{settings.mirror.window_ms / 1000 + DEAD_AFTER_S:.0f} seconds. --force ignores that."
        )
    if args.action == "export":
        refuse_running(flow, target)
        count = hand_back(flow, target, places, found)
        print(_text(plan, places, found, source))
        topic = f"{flow.connect_offsets_topic} on {target.alias}"
        print(f"{count} of {len(places)} positions are in {topic}; MirrorMaker resumes there.")
        return 0
    is_recreated = args.action == "reset" and args.recreate
    if is_recreated:
        _recreate(flow, topics, places, source, target)
    wanted = _wanted(source, places, "earliest" if args.action == "reset" else args.to, plan)
    changed = {}
    for assigned in places:
        place = assigned.on_target
        tail = PositionMetadata.parse(found[place].metadata).tail if place in found and not is_recreated else ""
        metadata = PositionMetadata(assigned.topic_id, tail)
        changed[place] = Position(wanted[assigned.on_source], str(metadata))
    note(flow, _left_out(places, found, wanted, now_ms=int(time.time() * 1000)))
    write_positions(flow, changed)
    print(_text(plan, places, {**found, **changed}, source))
    return 0


def _recreate(
    flow: Flow, topics: list[TopicPair], places: Sequence[PlannedPartition], source: Cluster, target: Cluster
) -> None:
    """Delete the remote topics of some partitions, and create them again.

    Raises:
        ClusterRefuses: the target refuses to delete or create a topic.
    """
    wanted = {p.remote_topic for p in places}
    for name in sorted(wanted):
        if objection := target.delete(name):
            raise ClusterRefuses(f"{target.alias} does not delete {name}: {objection}", cluster=target.alias)
    deadline_s = time.monotonic() + DELETED_S
    while left := wanted & target.topics().keys():
        if time.monotonic() > deadline_s:
            raise ClusterUnavailable(
                f"{target.alias} still has {', '.join(sorted(left))} after {DELETED_S:.0f} s. Repeat the command.",
                cluster=target.alias,
            )
        time.sleep(LOOK_S)
    again = [topic for topic in topics if topic.remote in wanted]
    for name, objection in ensure_remote(flow, again, target.topics(), source, target).objections.items():
        raise ClusterRefuses(f"{target.alias} does not create {name}: {objection}", cluster=target.alias)


def _left_out(
    places: Sequence[PlannedPartition],
    found: Mapping[TopicPartition, Position],
    wanted: Mapping[TopicPartition, int],
    *,
    now_ms: int,
) -> list[Gap]:
    """Return the gaps that the new positions cause, compared with the earlier ones."""
    before = {p: found[p.on_target].offset for p in places if p.on_target in found}
    gaps = (
        set_by_operator(p.on_source, offset, wanted[p.on_source], at_ms=now_ms, topic_id=p.topic_id)
        for p, offset in before.items()
    )
    return [gap for gap in gaps if gap is not None]


def _paused(found: Mapping[TopicPartition, Position], plan: FlowPlan, args: Namespace) -> Paused:
    """Return the new patterns of paused topics."""
    known = paused_topics(found, plan.paused_key).patterns
    if args.action == "pause":
        paused = Paused(tuple(dict.fromkeys([*known, *(args.topic.split(",") if args.topic else [".*"])])))
        try:
            paused.text()
        except ValueError as error:
            raise SettingsError(f"positions: {error}. Write one pattern that takes them all.") from None
        return paused
    gone = args.topic.split(",") if args.topic else known
    for pattern in gone:
        if pattern not in known:
            are = ", ".join(known) or "nothing"
            raise SettingsError(
                f'positions: "{pattern}" is not paused; paused is {are}. Leave --topic out to resume all.'
            )
    return Paused(tuple(pattern for pattern in known if pattern not in gone))


def moment(text: str) -> int:
    """Return a point in time (ISO 8601, UTC without a zone) as epoch ms.

    Raises:
        ValueError: the text is not a point in time.
    """
    at = datetime.fromisoformat(text)
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _wanted(
    source: Cluster, partitions: Sequence[PlannedPartition], to: str, plan: FlowPlan
) -> dict[TopicPartition, int]:
    """Return the position of each partition; an offset outside of the log is refused."""
    places = [p.on_source for p in partitions]
    logs = log_bounds(plan, source)
    if to in ("earliest", "latest"):
        return {place: (logs.starts if to == "earliest" else logs.ends)[place] for place in places}
    if not re.fullmatch(r"[0-9]+", to):
        try:
            at_ms = moment(to)
        except ValueError:
            raise SettingsError(
                f'positions: --to: "{to}" is not a position. Write earliest, latest, an offset, or a time such as '
                "2026-01-31T12:00:00Z."
            ) from None
        found = source.offsets_at(places, at_ms)
        return {place: found[place] if found.get(place, -1) >= 0 else logs.ends[place] for place in places}
    for topic, partition in places:
        first, end = logs.starts[TopicPartition(topic, partition)], logs.ends[TopicPartition(topic, partition)]
        if not first <= int(to) <= end:
            raise SettingsError(
                f"positions: --to: {to} is not in {topic}-{partition}, whose offsets are {first} to {end}."
            )
    return dict.fromkeys(places, int(to))


def _text(
    plan: FlowPlan, partitions: Sequence[PlannedPartition], found: Mapping[TopicPartition, Position], source: Cluster
) -> str:
    logs = log_bounds(plan, source)
    pattern = paused_topics(found, plan.paused_key).pattern()
    rows = [COLUMNS]
    for p in partitions:
        at = found.get(p.on_target)
        first, end = logs.starts.get(p.on_source), logs.ends.get(p.on_source)
        lag = None if at is None or end is None else end - at.offset
        state = "paused" if pattern is not None and pattern.matches(p.topic) else ""
        cells = (p.topic, p.partition, at.offset if at else None, first, end, lag, p.remote_topic, state)
        rows.append(tuple("-" if cell is None else str(cell) for cell in cells))  # type: ignore[arg-type]
    return aligned(rows, right=range(1, 6))
