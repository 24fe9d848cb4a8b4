"""Keep the driver's state of one flow: its clusters, its topics on both, and its plan."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field

from metrics.series import Labels
from mirror.config.settings import Flow, Settings
from mirror.errors import SettingsError
from mirror.flows.loops import Loops
from mirror.flows.start_positions import begin
from mirror.flows.stored_positions import Position, read_positions, write_positions
from mirror.flows.topics import TopicPair, ensure_internal, ensure_remote, flow_plan, matched, source_topics
from mirror.handover.membership import Membership
from mirror.kafka.cluster import Cluster, Topic
from mirror.model.flow_plan import FlowPlan, is_canary
from mirror.model.topic_partition import TopicPartition
from mirror.policy.recreated import OnRecreated, TopicIds

log = logging.getLogger("mirror")

_ON_GONE = {
    OnRecreated.RESTART: "it is created again, and filled from the source's start",
    OnRecreated.STOP: "nothing is replicated there until the topic is created, or kafka-mirror is restarted",
    OnRecreated.CONTINUE: "it is created again, and new records are replicated",
}
_ON_REPLACED = {
    OnRecreated.RESTART: "it is filled from the source's start",
    OnRecreated.STOP: "it is paused until its position is set (kafka-mirror positions)",
    OnRecreated.CONTINUE: "new records are replicated",
}


@dataclass(slots=True)
class Due:
    """When something is due again. It is due immediately at first. Other threads may hasten it."""

    at_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def hasten(self, interval_s: float) -> None:
        """Make it due in `interval_s` at the latest."""
        with self._lock:
            self.at_s = min(self.at_s, time.monotonic() + interval_s)

    def take(self, interval_s: float) -> bool:
        """Return whether it is due now; if so, make it due again after the interval."""
        with self._lock:
            if time.monotonic() < self.at_s:
                return False
            self.at_s = time.monotonic() + interval_s
            return True


@dataclass(slots=True)
class FlowState:
    """The state of one flow in the driver: its control planes, and what it replicates now.

    Only the thread of the flow's upkeep writes it; before that thread starts, the main thread begins the flow. Other threads read
    fields that are replaced as a whole (`plan`, `membership`, `topics`, `matching`), call `Due.hasten`, and write `part`.
    """

    flow: Flow
    source: Cluster
    target: Cluster
    topics: list[TopicPair] = field(default_factory=list)
    remote: dict[str, int] = field(default_factory=dict)  # partitions of each topic on the target
    objections: dict[str, str] = field(default_factory=dict)  # why a remote topic is missing, or too small
    plan: FlowPlan | None = None
    first: frozenset[TopicPartition] | None = None  # partitions that existed when the flow began
    begin_due: Due = field(default_factory=Due)
    not_begun: str = ""  # the reason that was logged last
    refresh_due: Due = field(default_factory=Due)
    configs_due: Due = field(default_factory=Due)
    acls_due: Due = field(default_factory=Due)
    gaps_due: Due = field(default_factory=Due)
    matching: int | None = None  # matching topics of the source, without heartbeats; None: unknown
    logged_hidden: set[str] = field(default_factory=set)  # hidden topics that were logged
    logged_gone: set[str] = field(default_factory=set)  # deleted remote topics that were logged
    membership: Membership | None = None
    acl_objections: set[str] = field(default_factory=set)  # the last objections, which were logged
    target_ids: dict[str, str] = field(default_factory=dict)  # ids of all topics on the target, by name
    # The last result of `served`, with its inputs before it: plan, own slots, all slots.
    part: tuple[tuple[FlowPlan, frozenset[int], int], FlowPlan] | None = None
    loops: Loops = field(init=False)

    def __post_init__(self) -> None:
        self.loops = Loops(self.flow)

    @property
    def name(self) -> tuple[str, str]:
        """Aliases of source and target: the labels of the flow's own series."""
        return self.flow.source.alias, self.flow.target.alias

    @property
    def follows_groups(self) -> bool:
        """True if the flow makes checkpoints of consumer groups."""
        return self.plan is not None and self.flow.checkpoints.enabled

    @property
    def leads(self) -> bool:
        """True if this process does the tasks that only one process of a flow does."""
        return self.membership is not None and self.membership.leads

    def served(self) -> FlowPlan | None:
        """Return the part of the plan that this process replicates; None before that is known.

        The result is the same object until the plan or the slots change, because thousands of partitions are looked up every few
        seconds.
        """
        plan, membership = self.plan, self.membership
        if plan is None or membership is None or (owned := membership.owned) is None:
            return None
        asked = (plan, owned, membership.layout.slots)
        part = self.part  # read once: the poller's thread and the driver's thread both call this
        if part is None or part[0] != asked:
            part = self.part = asked, plan.of_slots(owned, slots=membership.layout.slots)
        return part[1]

    def discover(self, *, slots: int, last_position: Callable[[Labels], int | None]) -> bool:
        """Match topics, prepare the target, and return whether the flow's partitions changed.

        Args:
            slots: Number of slots that all processes of the flow share.
            last_position: Returns the last known position of a partition.

        Raises:
            SettingsError: a MirrorMaker 2 still replicates the flow.
            ClusterUnavailable: a cluster does not respond.
        """
        flow, before = self.flow, self.plan
        on_target = self.target.topics()
        on_source = source_topics(flow, self.source, on_target, known=[topic.source for topic in self.topics])
        self.topics = matched(flow, on_source)
        self._log_hidden()
        self._count_matching(len(on_source))
        ensure_internal(flow, self.source, self.target, on_source=on_source, on_target=on_target, slots=slots)
        gone = self._gone(on_target)
        stopped = gone if flow.on_recreated is OnRecreated.STOP else set()
        wanted = [topic for topic in self.topics if topic.remote not in stopped]
        present, self.objections = ensure_remote(flow, wanted, on_target, self.source, self.target)
        self.remote = present | {name: self.remote[name] for name in stopped}
        if before is None:
            plan = flow_plan(flow, self.topics, self.remote)
            self.first = begin(flow, plan, self.source, self.target)
        if created := present.keys() - on_target.keys():
            # A topic that was deleted since the first request keeps its id here; the next refresh reports the deletion.
            on_target = on_target | _with(self.target, created)
        replaced = self._replaced(on_target, besides=gone)
        if flow.on_recreated is not OnRecreated.RESTART:
            self._put_back(gone - stopped | replaced, last_position)
        self.target_ids = {name: topic.topic_id for name, topic in on_target.items()}
        if not self.loops.knows(self._matched):
            self.look_for_loops()
        self.plan = self._made_plan()
        return self.plan != before

    def _log_hidden(self) -> None:
        """Log each hidden topic once."""
        hidden = {topic.source.name for topic in self.topics if topic.source.is_hidden}
        for name in sorted(hidden - self.logged_hidden):
            log.error(
                "%s: %s does not show %s to this client: grant DESCRIBE, or exclude the topic (topics.exclude) if it was deleted",
                self.flow.name,
                self.flow.source.alias,
                name,
            )
        self.logged_hidden = hidden

    def follow_loops(self) -> bool:
        """Check for loops again; return whether that changes the plan."""
        before = self.plan
        self.look_for_loops()
        self.plan = self._made_plan()
        return self.plan != before

    def look_for_loops(self) -> None:
        """Find the flow's topics that would form a loop, from the topics on the target."""
        remote = {topic.source.name: topic.remote for topic in self.topics}
        self.loops.look(self._matched, remote=remote, on_target=self.target_ids.values())

    @property
    def _matched(self) -> dict[str, Topic]:
        return {topic.source.name: topic.source for topic in self.topics}

    def _made_plan(self) -> FlowPlan:
        """Return the plan for the known topics. It includes topics that form a loop, which are not replicated."""
        return flow_plan(
            self.flow,
            self.topics,
            self.remote,
            first=self.first,
            remote_ids=self.target_ids,
            upstream=self.loops.upstream,
            going_round=self.loops.going_round,
            objections=self.objections,
        )

    def _count_matching(self, topics: int) -> None:
        """Count the matching topics. If none match, log it once: the pattern may be mistyped."""
        before, is_heartbeats = self.matching, self.flow.policy.is_heartbeats
        names = (found.source.name for found in self.topics)
        self.matching = sum(not is_heartbeats(name) and not is_canary(name) for name in names)
        if self.matching == 0 and before != 0:
            log.log(
                logging.WARNING if topics else logging.INFO,
                "%s: its settings match none of the %d topics on %s; nothing is mirrored until they match one",
                self.flow.name,
                topics,
                self.flow.source.alias,
            )

    def _gone(self, on_target: Mapping[str, Topic]) -> set[str]:
        """Return the remote topics that were deleted; log the consequence."""
        known = {p.remote_topic for p in self.plan.partitions} if self.plan is not None else set()
        gone = {name for name in known if name not in on_target}
        for name in gone - self.logged_gone:
            log.error("%s: %s was deleted on the target: %s", self.flow.name, name, _ON_GONE[self.flow.on_recreated])
        self.logged_gone = gone
        return gone

    def _replaced(self, on_target: Mapping[str, Topic], *, besides: Set[str]) -> set[str]:
        """Return the remote topics that were deleted and created again; log the consequence.

        Args:
            on_target: Topics by name. The next plan has their new ids, so only this check detects the change.
            besides: Topics that were absent at the first request; `_gone` has logged them.
        """
        known = {p.remote_topic: p.remote_id for p in self.plan.partitions} if self.plan is not None else {}
        ids = {name: on_target[name].topic_id for name in known.keys() - besides if name in on_target}
        replaced = {name for name, now in ids.items() if known[name] and known[name] != now}
        for name in sorted(replaced):
            log.error(
                "%s: %s was deleted and created again on the target: %s",
                self.flow.name,
                name,
                _ON_REPLACED[self.flow.on_recreated],
            )
        return replaced

    def _put_back(self, topics: Collection[str], last_position: Callable[[Labels], int | None]) -> None:
        """Restore, from earlier polls, positions that the target's broker deleted with their topics.

        The positions keep the ids of the earlier topics, so that a window detects the replacement.
        """
        plan = self.plan
        if plan is None or not topics:
            return
        kept, labels = read_positions(self.flow), plan.labels
        found = {
            p.on_target: Position(offset, str(TopicIds(p.topic_id, p.remote_id)))
            for p in plan.partitions
            if p.remote_topic in topics
            and p.on_target not in kept
            and (offset := last_position(labels[p.on_source])) is not None
        }
        if found:
            write_positions(self.flow, found)


def _with(target: Cluster, created: Set[str]) -> dict[str, Topic]:
    """Return the target's topics; wait a limited time for those just created."""
    for _ in range(10):
        topics = target.topics()
        if created <= topics.keys():
            break
        time.sleep(0.2)
    return topics


def led_flows(flows: Iterable[FlowState]) -> set[tuple[str, str]]:
    """Return the names of the flows that this process leads."""
    return {state.name for state in flows if state.leads}


def state_of(flow: Flow) -> FlowState:
    """Return the initial state of a flow."""
    return FlowState(flow, Cluster(flow.source.alias, flow.source_admin), Cluster(flow.target.alias, flow.target_admin))


def refuse_same_cluster(flows: list[FlowState]) -> None:
    """Raise SettingsError if both ends of a flow are one cluster: it would replicate its own output forever."""
    for state in flows:
        source, target = state.source.cluster_id(), state.target.cluster_id()
        if source == target:
            raise SettingsError(
                f"{state.flow.name}: both ends are the same cluster (cluster id {source}); "
                "it would replicate its own records without end. Point one alias at another cluster."
            )


def check(settings: Settings) -> list[FlowState]:
    """Connect to the clusters of every flow and match topics, without changes. For `plan`."""
    states = [state_of(flow) for flow in settings.flows]
    refuse_same_cluster(states)
    for state in states:
        state.topics = matched(state.flow, source_topics(state.flow, state.source, state.target.topics()))
    return states
