"""Hold the scope of a switch: the flow and its reverse, both clusters, partitions and groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from metrics.partition_status import Sample
from mirror.config.settings import Flow, Settings
from mirror.errors import SettingsError
from mirror.flows.offset_maps import FlowMaps
from mirror.flows.selection import flow_named
from mirror.flows.topics import TopicPair, matched, source_topics
from mirror.flows.translation import maps_of, plan_of
from mirror.kafka.cluster import Cluster
from mirror.kafka.groups import OTHER_TYPES, Group, is_idle
from mirror.model.flow_plan import Absent, FlowPlan, PlannedPartition, canary, is_canary, is_own_group
from mirror.model.topic_partition import TopicPartition
from mirror.policy.filters import compile_list
from mirror.policy.java_regex import JavaPattern, RegexError
from mirror.policy.naming import IdentityReplicationPolicy, ReplicationPolicy
from mirror.switching.run import Kind

GROUPS_S = 60.0  # limit for reading all groups of a cluster


class Fencing(Enum):
    """How producers are kept from writing."""

    NONE = "their operators stop them"
    ACLS = "ACLs deny it"
    ACLS_AND_READ = "ACLs deny it, and allow everyone to read topics that had none"


@dataclass(slots=True)
class Scope:
    """The scope of a switch. It is read from the clusters on demand, because they change between steps."""

    flow: Flow
    back: Flow | None
    topics: str = ""
    groups: str = ""
    fence: Fencing = Fencing.ACLS
    is_source_lost: bool = False
    mirrored_from: frozenset[str] = frozenset()  # aliases of clusters with a flow to the source
    without: frozenset[str] = frozenset()  # topics of the source that an operator leaves out
    canary: str = ""  # of a drill: the only topic and group of the scope; "": the scope has no canaries
    source: Cluster = field(init=False)
    target: Cluster = field(init=False)
    _topics: JavaPattern | None = field(init=False)
    _groups: JavaPattern | None = field(init=False)

    def __post_init__(self) -> None:
        self.source = Cluster(self.flow.source.alias, self.flow.source_admin)
        self.target = Cluster(self.flow.target.alias, self.flow.target_admin)
        self._topics = _pattern(self.topics, "--topics")
        self._groups = _pattern(self.groups, "--groups")

    @classmethod
    def of(
        cls,
        settings: Settings,
        name: str,
        kind: Kind,
        *,
        topics: str,
        groups: str,
        fence: Fencing,
        without: Iterable[str] = (),
    ) -> Scope:
        """Return the scope of a switch along the flow `name`.

        Raises:
            SettingsError: the file has no such flow, or lacks a required reverse flow, or a pattern is invalid.
        """
        flow = flow_named(settings, name, command=kind.value)
        back = next(
            (
                other
                for other in settings.flows
                if (other.source.alias, other.target.alias) == (flow.target.alias, flow.source.alias)
            ),
            None,
        )
        if back is None and kind in (Kind.SWITCH, Kind.SWITCH_BACK):
            raise SettingsError(
                f"{kind.value}: the file enables no flow {flow.target.alias}->{flow.source.alias}, so no record written on "
                f"{flow.target.alias} would be replicated back. Enable it, or use 'kafka-mirror migrate'."
            )
        if flow.is_bidirectional:
            raise SettingsError(
                f"{kind.value}: topics of {flow.name} keep their names both ways, and both clusters accept writes: there is "
                f"nothing to switch. Stop the writers of {flow.source.alias}, wait until 'kafka-mirror lag' shows 0, and "
                f"give them the brokers of {flow.target.alias}."
            )
        if back is not None and is_identity(flow.policy):
            raise SettingsError(
                f"{kind.value}: {flow.name} and {back.name} both keep the names of topics, so one would replicate what the other "
                "wrote. Enable one of them, and use 'kafka-mirror migrate'."
            )
        brought = frozenset(other.source.alias for other in settings.flows if other.target.alias == flow.source.alias)
        return cls(flow, back, topics, groups, fence, kind is Kind.FAIL_OVER, brought, frozenset(without))

    def reversed(self) -> Scope:
        """Return the scope of the reverse flow, with all its topics. A drill keeps its canary."""
        assert self.back is not None
        if self.canary:
            return Scope(self.back, self.flow, fence=self.fence, canary=self.canary)
        return Scope(self.back, self.flow)

    @classmethod
    def of_drill(cls, settings: Settings, name: str) -> Scope:
        """Return the scope of a drill along the flow `name`: only its canary.

        Raises:
            SettingsError: the file has no such flow, or the flow does not carry canaries.
        """
        flow = flow_named(settings, name, command="drill")
        if not flow.has_canaries:
            raise SettingsError(
                f"drill: {name} has no canary topic. Set mirror.drill.enabled = true, enable the reverse flow, and start "
                "'kafka-mirror run' with both flows."
            )
        back = flow_named(settings, f"{flow.target.alias}->{flow.source.alias}", command="drill")
        return cls(flow, back, fence=Fencing.ACLS_AND_READ, canary=canary(flow.source.alias, flow.target.alias))

    def matched(self) -> list[TopicPair]:
        """Return the chosen topics that producers write on the source; a mirror writes the others."""
        topics = matched(self.flow, source_topics(self.flow, self.source, self.target.topics()))
        return [topic for topic in topics if self._is_chosen(topic.source.name)]

    def plan(self) -> FlowPlan:
        """Return the flow's current plan from its clusters, with all topics."""
        return plan_of(self.flow, self.source, self.target, is_source_lost=self.is_source_lost)

    def plan_and_maps(self) -> tuple[FlowPlan, FlowMaps]:
        """Return the flow with its offset maps."""
        plan = self.plan()
        return plan, maps_of(self.flow, plan)

    def partitions(self, plan: FlowPlan) -> list[PlannedPartition]:
        """Return the chosen partitions of a plan."""
        return [assigned for assigned in plan.partitions if self._is_chosen(assigned.topic)]

    def absent(self, plan: FlowPlan) -> list[Absent]:
        """Return the chosen partitions of a plan that are not on the target."""
        return [place for place in plan.absent if self._is_chosen(place.topic)]

    def seen_only(self, plan: FlowPlan, seen: Mapping[TopicPartition, Sample]) -> dict[TopicPartition, Sample]:
        """Return the source partitions that the target lacks, by remote topic and partition."""
        brought = {place.on_target for place in plan.partitions}
        return {
            place: sample
            for place, sample in seen.items()
            if place not in brought and self._is_chosen(self.origin(place[0]))
        }

    def origin(self, remote_topic: str) -> str:
        """Return the source name of a remote topic."""
        return self.flow.policy.upstream_topic(remote_topic) or remote_topic

    def has_process(self, plan: FlowPlan) -> bool:
        """Return whether a process runs a flow, even a flow without topics; raises ClusterUnavailable."""
        members = self.target.groups(lambda name: name.startswith(f"{plan.group}."), within_s=GROUPS_S)
        return any(not is_idle(group.state) for group in members)

    def _is_chosen(self, topic: str) -> bool:
        policy = self.flow.policy
        return (
            topic not in self.without
            and not policy.is_heartbeats(topic)
            and (topic == self.canary if self.canary else not is_canary(topic))
            and (is_identity(policy) or policy.topic_source(topic) not in self.mirrored_from)
            and (self._topics is None or self._topics.matches(topic))
        )

    def concerns(self, topic: str) -> bool:
        """Return whether groups are moved on a source topic: it is chosen, or the reverse flow replicated it."""
        back = self.back.policy if self.back is not None else None
        if back is not None and not is_identity(back) and back.topic_source(topic) == self.target.alias:
            return True
        return self._is_chosen(topic) and (is_canary(topic) or self.flow.topics.matches(topic))

    def wants_group(self, name: str) -> bool:
        """Return whether a consumer group is chosen."""
        if self.canary:
            return name == self.canary
        is_followed = self.flow.checkpoints.groups.matches(name) and not is_own_group(name)
        return is_followed and (self._groups is None or self._groups.matches(name))

    def groups_on_source(self) -> list[Group]:
        """Return the chosen groups on the source that have offsets."""
        found = self.source.groups(self.wants_group, within_s=GROUPS_S)
        return [group for group in found if group.offsets]

    def groups_of_other_types(self) -> list[Group]:
        """Return the chosen groups on the source that are not consumer groups."""
        return self.source.groups(self.wants_group, kinds=OTHER_TYPES, within_s=GROUPS_S)  # without offsets

    def groups_on_target(self, names: Sequence[str]) -> dict[str, Group]:
        """Return groups on the target by name."""
        wanted = set(names)
        found = self.target.groups(wanted.__contains__, within_s=GROUPS_S)
        return {group.name: group for group in found}


def is_identity(policy: ReplicationPolicy) -> bool:
    """Return whether topics keep their names."""
    return isinstance(policy, IdentityReplicationPolicy)


def _pattern(text: str, option: str) -> JavaPattern | None:
    try:
        return compile_list(text.split(",")) if text else None
    except RegexError as error:
        raise SettingsError(f"{option}: {error}") from None
