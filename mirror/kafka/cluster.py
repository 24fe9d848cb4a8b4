"""All requests to a cluster outside of the windows.

For any thread. Requests about logs and groups use one client of the project that stays open, and records another one; the control
plane uses confluent-kafka's admin client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from mirror.config.values import ClientError
from mirror.errors import ClusterRefuses, ClusterUnavailable, SettingsError
from mirror.kafka import cluster_facts
from mirror.kafka.appender import Appender, Records
from mirror.kafka.client import Client
from mirror.kafka.control_plane import OFFSETS_S, ControlPlane, Topic
from mirror.kafka.errors import SILENCES, ErrorCode, KafkaError, LoginError, is_code
from mirror.kafka.group_offsets import GroupOffsets, patiently
from mirror.kafka.groups import HIDDEN, READERS, UNSUPPORTED, Group, read_groups
from mirror.kafka.kept_client import KeptClient
from mirror.kafka.log_offsets import LogOffsets
from mirror.kafka.protocol import EARLIEST, LATEST
from mirror.kafka.rights import refusal_of
from mirror.model.topic_partition import TopicPartition
from mirror.runtime import background
from mirror.runtime.clock import now_ms
from mirror.runtime.logs import describe

__all__ = ["Cluster", "Topic"]

GROUPS_S = 15.0
COORDINATOR_S = 5.0  # a cluster's first group, or one whose coordinator moves, gets its response a moment later
COMMIT_S = 10.0  # for a coordinator that moves, or a cluster that makes room for its first group
DESCRIBE_S = 10.0
APPEND_S = 20.0  # for a topic that waits for a leader or for its replicas
_DENIED = ErrorCode.topic_authorization_failed

Answer = TypeVar("Answer")


@dataclass(slots=True)
class _Published:
    """Offsets that were committed without waiting for the response."""

    objection: str = ""  # what the broker objected last, "" if it took them
    accepted: dict[TopicPartition, int] = field(default_factory=dict)
    is_in_flight: bool = False


class Cluster(ControlPlane):
    """One cluster.

    Every call raises ClusterUnavailable by the cluster's alias if the cluster does not respond, or ClusterRefuses if this client
    lacks a right.
    """

    def __init__(self, alias: str, java_options: Mapping[str, str], *, within_s: float = float("inf")) -> None:
        """`within_s` bounds each call, if that is less than it would wait otherwise."""
        super().__init__(alias, java_options, within_s=within_s)
        self._within_s = within_s
        self._client = KeptClient(java_options)
        self._logs = LogOffsets(self._client, within_s=min(OFFSETS_S, within_s))
        self._published: dict[str, _Published] = {}  # by group
        self._appender = Appender(java_options)

    def close(self) -> None:
        """Close the connections; a later call opens others."""
        super().close()
        self._client.close()
        self._appender.close()

    # --- logs ---------------------------------------------------------------------------------------------------

    def end_offsets(
        self, wanted: Iterable[TopicPartition], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the log-end offset of each partition that responds; the last stable offset under read_committed."""
        return self._offsets(wanted, LATEST, isolation_level=int(read_committed))

    def start_offsets(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log-start offset of each partition that responds."""
        return self._offsets(wanted, EARLIEST)

    def offsets_at(self, wanted: Iterable[TopicPartition], at_ms: int) -> dict[TopicPartition, int]:
        """Return each partition's first offset at or after a time (epoch ms), else -1."""
        return self._offsets(wanted, at_ms)

    def open_transactions(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """Return the owner of each partition's first open transaction, as far as brokers report it."""
        with self._reported():
            found = self._logs.open_transactions(wanted)
        return {place: str(transaction) for place, transaction in found.items()}

    def append(
        self,
        topic: str,
        records: Records,
        *,
        partition: int = 0,
        timestamp_ms: int | None = None,
        within_s: float = APPEND_S,
    ) -> None:
        """Append (key, value) records to a partition; return when all in-sync replicas have them.

        Args:
            topic: An existing one.
            records: After `fence`, they are one transaction.
            partition: Of the topic.
            timestamp_ms: Of the records, epoch ms; None: now.
            within_s: How long the cluster may take.

        Raises:
            FencedError: another process has called `fence` with the same transactional id.
            NoTopicError: the topic does not exist.
            ClusterUnavailable, ClusterRefuses: the partition may have some of the records.
        """
        at_ms = int(now_ms()) if timestamp_ms is None else timestamp_ms
        bound_s = min(within_s, self._within_s)
        with self._reported(right=f"WRITE on the topic {topic}", what=f"{topic} accepts no record"):
            background.run(
                self._appender.append(TopicPartition(topic, partition), records, timestamp_ms=at_ms, within_s=bound_s)
            )

    def fence(self, transactional_id: str, *, within_s: float = APPEND_S) -> None:
        """Become the only writer with a transactional id: each `append` from now on is a transaction.

        An earlier writer's next `append` fails. If one of this writer fails, all later ones fail too.
        """
        with self._reported():
            background.run(self._appender.fence(transactional_id, within_s=min(within_s, self._within_s)))

    def _offsets(
        self, wanted: Iterable[TopicPartition], at: int, *, isolation_level: int = 0
    ) -> dict[TopicPartition, int]:
        with self._reported():
            answers = self._logs.ask(wanted, at, isolation_level=isolation_level)
        found = {place: answer for place, answer in answers.items() if isinstance(answer, int)}
        failures = [answer for answer in answers.values() if not isinstance(answer, int)]
        if not found and (failure := next((each for each in failures if not is_code(each, _DENIED)), None)) is not None:
            raise self._failure(failure) from failure
        return found

    # --- consumer groups ----------------------------------------------------------------------------------------

    def groups(
        self,
        wanted: Callable[[str], bool] = lambda _: True,
        *,
        kinds: Collection[str] = READERS,
        within_s: float = GROUPS_S,
    ) -> list[Group]:
        """Return every wanted group with its offsets, or as HIDDEN or UNSUPPORTED.

        `kinds` are protocol types.
        """
        return self._ask(partial(read_groups, wanted=wanted, kinds=kinds), within_s=within_s)

    def group(self, name: str, *, kinds: Collection[str] = READERS) -> Group | None:
        """Return a group, None if there is none.

        Raises:
            SettingsError: it is a group of another type.
        """
        (group,) = self.groups(lambda listed: listed == name, kinds=kinds) or (None,)
        if group is not None and group.state == HIDDEN:
            raise ClusterRefuses(
                f"cluster {self.alias}: group {name} cannot be read. Grant this client DESCRIBE on the group.",
                cluster=self.alias,
            )
        if group is not None and group.state == UNSUPPORTED:
            raise SettingsError(
                f"cluster {self.alias}: group {name} is a {group.kind} group. Name a consumer group: only their offsets are read."
            )
        return group

    def committed(self, group: str, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return a group's committed offset of each partition that has one."""
        places = list(wanted)
        if not places:
            return {}

        async def question(client: Client) -> dict[TopicPartition, int]:
            offsets = GroupOffsets(client)
            found = await patiently(lambda: offsets.committed(group, places), within_s=COORDINATOR_S)
            return {place: offset for place, (offset, _) in found.items()}

        return self._ask(question, within_s=COORDINATOR_S + OFFSETS_S, right=f"DESCRIBE on the group {group}")

    def publish(self, group: str, offsets: Mapping[TopicPartition, int]) -> str:
        """Commit offsets without waiting, unless a commit is in flight.

        A dead cluster must not block the caller.

        Returns:
            The broker's objection to the last offsets that it responded to, "" if it committed them.
        """
        published = self._published.setdefault(group, _Published())
        if not published.is_in_flight:
            published.is_in_flight = True
            background.begin(self._publish(group, dict(offsets), published))
        return published.objection

    def holds(self, group: str, offsets: Mapping[TopicPartition, int]) -> bool:
        """Return whether the broker has committed exactly these offsets as the group's last ones."""
        return group in self._published and self._published[group].accepted == offsets

    async def _publish(self, group: str, offsets: dict[TopicPartition, int], published: _Published) -> None:
        async def question(client: Client) -> None:
            wanted = {place: (offset, "") for place, offset in offsets.items()}
            await patiently(lambda: GroupOffsets(client).commit(group, wanted), within_s=COMMIT_S)

        try:
            await self._client.asked(question, within_s=min(COMMIT_S + OFFSETS_S, self._within_s))
        except (KafkaError, OSError, ClientError) as error:
            published.objection = describe(error)
        else:
            published.objection, published.accepted = "", offsets
        finally:
            published.is_in_flight = False

    # --- the cluster itself -------------------------------------------------------------------------------------

    def clock_skew(self) -> float:
        """Return the seconds that the cluster's clock is at least ahead, negative if it lags.

        Raises:
            ClockUnknown: it has no KRaft controller, does not show it to this client, or does not respond.
        """
        return self._told(cluster_facts.clock_skew, cluster_facts.WITHIN_S, cluster_facts.ClockUnknown)

    def log_dirs(self, places: Iterable[TopicPartition]) -> cluster_facts.LogDirs:
        """Return the brokers' report of their disks, with the sizes of these partitions.

        Raises:
            LogDirsUnknown: a broker refuses, or does not respond.
        """
        return self._told(
            partial(cluster_facts.log_dirs, places=list(places)), DESCRIBE_S, cluster_facts.LogDirsUnknown
        )

    def has_authorizer(self) -> bool:
        """Return whether the cluster checks ACLs.

        Raises:
            AuthorizerUnknown: it refuses, or does not respond.
        """
        return self._told(cluster_facts.has_authorizer, DESCRIBE_S, cluster_facts.AuthorizerUnknown)

    # --- asking -------------------------------------------------------------------------------------------------

    def _ask(self, question: Callable[[Client], Awaitable[Answer]], *, within_s: float, right: str = "") -> Answer:
        with self._reported(right=right):
            return self._client.ask(question, within_s=min(within_s, self._within_s))

    def _told(
        self, question: Callable[[Client], Awaitable[Answer]], within_s: float, unknown: type[Exception]
    ) -> Answer:
        """Return an optional fact of a cluster. Raise `unknown` with the reason if there is none."""
        try:
            return self._client.ask(question, within_s=min(within_s, self._within_s))
        except (ClientError, KafkaError, OSError) as error:
            raise unknown(str(error) or type(error).__name__) from error

    @contextmanager
    def _reported(self, *, right: str = "", what: str = "") -> Iterator[None]:
        """Raise the client's error in a readable form."""
        try:
            yield
        except (KafkaError, OSError) as error:
            raise self._failure(error, right=right, what=what) from error

    def _failure(self, error: Exception, *, right: str = "", what: str = "") -> ClusterUnavailable:
        """Return a readable error.

        Args:
            error: What the client raises.
            right: The right that the call needs, if the code does not imply it.
            what: The result of a response that is a refusal; "": every failure counts as a missing response.
        """
        if (refusal := refusal_of(error, self._clients.where, cluster=self.alias, right=right)) is not None:
            return refusal
        if what and not isinstance(error, (OSError, *SILENCES)):
            return ClusterUnavailable(f"{self._clients.where}: {what} ({describe(error)}).", cluster=self.alias)
        return self._clients.silent(describe(error), is_refused=isinstance(error, LoginError))
