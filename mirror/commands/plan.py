"""Run `kafka-mirror plan`: print the flows, topics, partitions and start positions of a settings file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from mirror.commands.options import add_own_settings, add_targets, describe, load_to_run
from mirror.config.given import add_mirror
from mirror.config.settings import Settings
from mirror.flows.flow import FlowState, check
from mirror.flows.sync import acl_changes, config_changes
from mirror.flows.topics import TopicPair, is_identical, transforms_of
from mirror.kafka.cluster_facts import LogDirsUnknown
from mirror.model.flow_plan import own_group
from mirror.model.reports import GOES_ROUND
from mirror.model.topic_partition import TopicPartition
from mirror.policy.topic_acls import ANY_TOPIC
from mirror.policy.topic_configs import Change, described

ADVANCES_PER_S = 10_000_000  # offsets; measured with python -m tests.benchmarks.identical

DESCRIPTION = """\
Print what FILE would replicate: its flows with topics, remote names, partitions and start positions, and the settings and ACLs
that would change. Reads from the clusters; changes nothing."""
EXAMPLES = """\
prints, for example:
  a->b: 1 topics, positions in group mirror.a->b on b
    orders -> a.orders (is created with 2; partition@start 0@200, 1@begin)
    space: 12.4 GiB on a, 0 B on b; its brokers have 310.0 GiB free
exit codes: 0 printed, 2 settings, 3 a cluster did not respond, 6 it refused"""


def declare(parser: ArgumentParser) -> None:
    """Add the command's options."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_mirror(parser, "a connect-mirror-maker.properties")
    add_targets(parser)
    add_own_settings(parser)


def run(parsed: Namespace) -> int:
    """Print the plan; return the exit code."""
    print(plan_text(load_to_run(parsed)), end="")
    return 0


def plan_text(settings: Settings) -> str:
    """Return the plan of every flow; read from the clusters and change nothing on them."""
    return "\n".join(_flow_text(state) for state in check(settings))


def _flow_text(state: FlowState) -> str:
    flow = state.flow
    existing = state.target.topics()
    state.target_ids = {name: topic.topic_id for name, topic in existing.items()}
    state.look_for_loops()
    group = own_group(flow.name)
    wanted = [
        TopicPartition(topic.remote, number) for topic in state.topics for number in range(topic.source.partitions)
    ]
    positions = state.target.committed(group, wanted)
    lines = [f"{flow.name}: {len(state.topics)} topics, positions in group {group} on {flow.target.alias}"]
    changes: dict[str, list[Change]] = {}
    if flow.sync_configs.enabled:
        changes = config_changes(flow, state.topics, state.source, state.target, present=existing)
    width = max([len(topic.source.name) for topic in state.topics], default=0)
    for topic in state.topics:
        have = existing[topic.remote].partitions if topic.remote in existing else 0
        want = topic.source.partitions
        action = "exists" if have >= want else f"grows from {have} to {want}" if have else _created(state, topic)
        starts = ", ".join(
            f"{number}@{positions[TopicPartition(topic.remote, number)]}"
            if (topic.remote, number) in positions
            else f"{number}@{_start(state)}"
            for number in range(want)
        )
        lines.append(f"  {topic.source.name:<{width}} -> {topic.remote} ({action}; partition@start {starts})")
        if transforms := transforms_of(flow, topic):
            lines.append(f"  {'':<{width}}    transforms: {', '.join(transform.name for transform in transforms)}")
        if is_identical(flow, topic):
            lines.append(f"  {'':<{width}}    offsets: identical; {_advance(state, topic, positions)}")
        if topic.source.name in state.loops.going_round:
            lines.append(f"  {'':<{width}}    paused: {GOES_ROUND}")
        if topic.source.is_hidden:
            lines.append(f"  {'':<{width}}    UNKNOWN: {flow.source.alias} hides it from this client. Grant DESCRIBE")
        if topic.remote in changes:
            lines.append(f"  {'':<{width}}    settings that change: {described(changes[topic.remote])}")
    lines += _acl_lines(state)
    lines += _space_lines(state)
    return "\n".join(lines) + "\n"


def _advance(state: FlowState, topic: TopicPair, positions: Mapping[TopicPartition, int]) -> str:
    """Return by how many offsets logs are advanced, and how long that takes."""
    new = [
        TopicPartition(topic.source.name, number)
        for number in range(topic.source.partitions)
        if TopicPartition(topic.remote, number) not in positions
    ]
    if not new:
        return "every partition has a position"
    bounds = state.source.end_offsets if _start(state) == "end" else state.source.start_offsets
    offsets = sum(bounds(new).values())
    if not offsets:
        return "logs begin at 0"
    return f"logs are advanced by {offsets:,} offsets, which takes about {max(1, offsets // ADVANCES_PER_S):,} s"


def _created(state: FlowState, topic: TopicPair) -> str:
    """Return whether a remote topic will be created, after the target has validated it."""
    want = topic.source.partitions
    objection = state.target.create(
        topic.remote,
        partitions=want,
        replication_factor=state.flow.replication_factor,
        configs={},
        validates_only=True,
    )
    return f"CANNOT be created: {objection}" if objection else f"is created with {want}"


def _acl_lines(state: FlowState) -> list[str]:
    """Return the ACLs to add, and why other ACLs of the topics are not added."""
    if not state.flow.sync_acls.enabled:
        return []
    verdicts, lacking = acl_changes(state.topics, state.source, state.target)
    names = {topic.source.name for topic in state.topics} | {ANY_TOPIC}
    left = [f"  ACL left out: {v.source}: {v.why_not}" for v in verdicts if v.why_not and v.source.topic in names]
    return [f"  ACL that is added: {acl}" for acl in lacking] + left


def _space_lines(state: FlowState) -> list[str]:
    """Return how many bytes will be replicated, and whether the target has room."""
    flow = state.flow
    crosses = {
        TopicPartition(topic.source.name, number): TopicPartition(topic.remote, number)
        for topic in state.topics
        for number in range(topic.source.partitions)
    }
    if not crosses:
        return []
    try:
        theirs, ours = state.source.log_dirs(crosses), state.target.log_dirs(crosses.values())
    except LogDirsUnknown as error:
        return [f"  space: not known ({error})"]
    there, here = sum(theirs.sizes.values()), sum(ours.sizes.values())
    to_come = sum(max(0, size - ours.sizes.get(crosses[key], 0)) for key, size in theirs.sizes.items())
    return space_lines(
        flow.source.alias, flow.target.alias, there, here, to_come, ours.free, max(1, flow.replication_factor)
    )


def space_lines(
    source: str, target: str, there: int, here: int, to_come: int, free: int | None, replicas: int
) -> list[str]:
    """Return the lines of `plan` about disks.

    Args:
        source: Alias of the source.
        target: Alias of the target.
        there: Bytes of the topics on the source, in one replica.
        here: Bytes of their remote topics on the target, in one replica.
        to_come: Bytes that the target lacks, in one replica, assuming batches as on the source.
        free: Free bytes on all brokers of the target together, None if unknown.
        replicas: Number of replicas on the target.
    """
    room = "free space is not known (Kafka before 3.3)" if free is None else f"its brokers have {in_units(free)} free"
    lines = [f"  space: {in_units(there)} on {source}, {in_units(here)} on {target}; {room}"]
    needed = to_come * replicas
    if free is not None and needed > free:
        times = f" in {replicas} replicas" if replicas > 1 else ""
        lines.append(
            f"  WARNING: {in_units(needed)} will be copied{times}, which is more than is free. Make room, or mirror less."
        )
    return lines


def in_units(count: int) -> str:
    """Return a readable number of bytes: "12 B", "1.5 GiB"."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{count} B" if unit == "B" else f"{size:,.1f} {unit}"


def _start(state: FlowState) -> str:
    return "end" if state.flow.consumer.get("auto.offset.reset") == "latest" else "begin"
