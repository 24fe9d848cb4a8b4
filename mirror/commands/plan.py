"""`kafka-mirror plan`: print what a settings file would replicate: flows, topics, partitions, start positions."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from mirror.commands.options import add_own_settings, add_targets, describe, load_to_run
from mirror.config.given import add_mirror
from mirror.config.settings import Settings
from mirror.flows.flow import FlowState, check
from mirror.flows.sync import acl_changes, config_changes
from mirror.lag.cluster_offsets import positions_by_remote
from mirror.model.flow_plan import FlowPlan
from mirror.policy.topic_acls import ANY_TOPIC
from mirror.policy.topic_configs import Change, described

DESCRIPTION = """\
Print what FILE would replicate: its flows with topics, remote names, partitions and start positions, settings and ACLs that
would change. Asks the clusters; changes nothing."""
EXAMPLES = """\
prints, for example:
  a->b: 1 topics, positions in group mirror.a->b on b
    orders -> a.orders (is created with 2; partition@start 0@200, 1@begin)"""


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
    """Return the plan of every flow; asks the clusters and changes nothing on them."""
    return "\n".join(_flow_text(state) for state in check(settings))


def _flow_text(state: FlowState) -> str:
    flow = state.flow
    existing = state.target.topics()
    group = FlowPlan(
        source=flow.source.alias, target=flow.target.alias, tasks_max=1, consumer={}, producer={}, partitions=()
    ).group
    wanted = [(topic.remote, number) for topic in state.topics for number in range(topic.source.partitions)]
    positions = positions_by_remote(group, state.target, wanted)
    lines = [f"{flow.name}: {len(state.topics)} topics, positions in group {group} on {flow.target.alias}"]
    changes: dict[str, list[Change]] = {}
    if flow.sync_configs.enabled:
        changes = config_changes(flow, state.topics, state.source, state.target, present=existing)
    width = max([len(topic.source.name) for topic in state.topics], default=0)
    for topic in state.topics:
        have = existing[topic.remote].partitions if topic.remote in existing else 0
        want = topic.source.partitions
        action = "exists" if have >= want else f"grows from {have} to {want}" if have else f"is created with {want}"
        starts = ", ".join(
            f"{number}@{positions[topic.remote, number]}"
            if (topic.remote, number) in positions
            else f"{number}@{_start(state)}"
            for number in range(want)
        )
        lines.append(f"  {topic.source.name:<{width}} -> {topic.remote} ({action}; partition@start {starts})")
        if topic.remote in changes:
            lines.append(f"  {'':<{width}}    settings that change: {described(changes[topic.remote])}")
    lines += _acl_lines(state)
    return "\n".join(lines) + "\n"


def _acl_lines(state: FlowState) -> list[str]:
    """Say which ACLs would be added, and of each other one on a replicated topic or on all why it would not."""
    if not state.flow.sync_acls.enabled:
        return []
    verdicts, lacking = acl_changes(state.topics, state.source, state.target)
    names = {topic.source.name for topic in state.topics} | {ANY_TOPIC}
    left = [f"  ACL left out: {v.source}: {v.why_not}" for v in verdicts if v.why_not and v.source.topic in names]
    return [f"  ACL that is added: {acl}" for acl in lacking] + left


def _start(state: FlowState) -> str:
    return "end" if state.flow.consumer.get("auto.offset.reset") == "latest" else "begin"
