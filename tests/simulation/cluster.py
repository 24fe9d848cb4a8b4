"""A Kafka cluster in memory: brokers that speak the wire format, and what they share."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from mirror.kafka.errors import ErrorCode
from mirror.kafka.messages import answered, answers, make, request_of
from mirror.model.topic_partition import TopicPartition
from tests.simulation.clock import World
from tests.simulation.fetches import Fetches
from tests.simulation.log import NO_OFFSET, PartitionLog
from tests.simulation.network import Link, Network
from tests.simulation.transactions import Transactions

SPOKEN = {0: (3, 13), 1: (4, 17), 2: (1, 7), 3: (4, 12), 8: (2, 8), 9: (2, 7), 10: (1, 3), 18: (0, 3), 22: (0, 4)}
SPOKEN |= dict.fromkeys((24, 25), (0, 3)) | {15: (0, 5), 16: (0, 4)}
SERVICE_S = (0.00005, 0.0005)
MARKER_LOOKS_S = 0.01
NOTHING_S = timedelta(0)
OK = ErrorCode.none
_VERSIONS = 18

Answer = Callable[[Any], None]  # gets the answer to a request, at once or later


class Group:
    """The offsets of a consumer group, and those that open transactions will commit, by producer id."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, tuple[int, str]] = {}
        self.pending: dict[int, dict[TopicPartition, tuple[int, str]]] = {}

    def by_topic(self) -> dict[str, list[int]]:
        """Return the partitions of each topic that have an offset."""
        found: dict[str, list[int]] = {}
        for topic, partition in sorted(self.offsets):
            found.setdefault(topic, []).append(partition)
        return found


class Cluster:
    """What the brokers of a cluster share: topics, leaders, groups, transactions."""

    def __init__(self, world: World, network: Network, alias: str, *, brokers: int, is_second: bool) -> None:
        self.world = world
        self.alias = alias
        self.is_second = is_second
        self.has_old_records = False  # older than a broker that restarts remembers their producers
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.groups: dict[str, Group] = {}
        self.brokers = {node: Broker(self, node, alias) for node in range(1, brokers + 1)}
        network.brokers |= {(broker.host, 9092): broker for broker in self.brokers.values()}
        self.bootstrap = ",".join(f"{broker.host}:9092" for broker in self.brokers.values())
        self.on_append: Callable[[PartitionLog], None] = lambda _: None
        self.on_commit: Callable[[str, Mapping[TopicPartition, tuple[int, str]]], None] = lambda _, __: None
        self._producer_ids = 0
        self._coordinators: dict[str, tuple[int, float]] = {}  # node, and until when it loads
        self.transactions = Transactions(
            world,
            is_second=is_second,
            next_producer_id=self.next_producer_id,
            write_marker=self._write_marker,
            end_offsets=self._end_offsets,
        )

    def next_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic whose leaders are spread over the brokers."""
        topic_id = self.topic_ids[topic] = uuid.UUID(int=self.world.dice.getrandbits(128))
        nodes = list(self.brokers)
        for number in range(partitions):
            self.logs[topic, number] = PartitionLog(topic, number, topic_id, nodes[number % len(nodes)])

    def partitions(self, topic: str) -> list[PartitionLog]:
        found = []
        while (log := self.logs.get((topic, len(found)))) is not None:
            found.append(log)
        return found

    def log_by(self, topic: str | uuid.UUID | None, number: int) -> PartitionLog | None:
        """Return a partition by the topic's name or id."""
        if isinstance(topic, uuid.UUID):
            topic = next((name for name, topic_id in self.topic_ids.items() if topic_id == topic), None)
        return self.logs.get((topic, number)) if topic is not None else None

    def group(self, name: str) -> Group:
        return self.groups.setdefault(name, Group())

    # --- leaders and coordinators -------------------------------------------------------------------------------

    def alive(self) -> list[int]:
        return [node for node, broker in self.brokers.items() if not broker.is_down]

    def move_leader(self, log: PartitionLog, leader: int | None, *, truncates: bool = False) -> None:
        """Change a partition's leader; what waits for the one before is answered."""
        self.world.note(f"{self.alias}: {log.name} moves from {log.leader} to {leader}")
        log.moved(leader, truncates=truncates)
        self.wake(log)

    def coordinator(self, key: str) -> int | None:
        """Return the node that coordinates a group or a transactional id, None while no broker is up."""
        nodes = list(self.brokers)
        first = zlib.crc32(key.encode()) % len(nodes)
        found = next((node for node in nodes[first:] + nodes[:first] if not self.brokers[node].is_down), None)
        known = self._coordinators.get(key)
        if found is not None and (known is None or known[0] != found):
            loads_s = 0.0 if known is None else self.world.dice.uniform(0, 1)
            self._coordinators[key] = found, self.world.now_s + loads_s
        return found

    def refuses_as_coordinator(self, node: int, key: str) -> ErrorCode:
        """Return why a broker does not answer as coordinator, OK if it does."""
        if self.coordinator(key) != node:
            return ErrorCode.not_coordinator
        loads = self.world.now_s < self._coordinators[key][1]
        return ErrorCode.coordinator_load_in_progress if loads else OK

    # --- appending ----------------------------------------------------------------------------------------------

    def appended(self, log: PartitionLog) -> None:
        """Have the replicas follow."""
        end, epoch = log.end, log.epoch
        self.on_append(log)
        if log.replication_s <= 0:
            self._replicated(log, end, epoch)
        else:
            self.world.after(log.replication_s, lambda: self._replicated(log, end, epoch))

    def _replicated(self, log: PartitionLog, end: int, epoch: int) -> None:
        if log.epoch == epoch and log.replicated(end):
            self.wake(log)

    def wake(self, log: PartitionLog) -> None:
        """Let what waits for a partition look again."""
        for broker in self.brokers.values():
            broker.look_again(log)

    def write(self, topic: str, number: int, data: bytes) -> None:
        """Append what a producer of the source wrote: it is acknowledged, so all replicas have it."""
        log = self.logs[topic, number]
        log.append(data)
        log.replicated(log.end)
        self.wake(log)

    def end(self, topic: str, number: int, producer_id: int, *, is_commit: bool) -> None:
        """End a transaction of a producer of the source."""
        log = self.logs[topic, number]
        log.end_transaction(producer_id, 0, is_commit=is_commit)
        log.replicated(log.end)
        self.wake(log)

    def _write_marker(
        self, place: TopicPartition, producer_id: int, epoch: int, is_commit: bool, done: Callable[[bool], None]
    ) -> None:
        """Append a marker; the coordinator waits for all replicas, as a producer does."""
        log = self.logs[place]
        if log.leader is None or self.brokers[log.leader].is_down:
            done(False)
            return
        log.end_transaction(producer_id, epoch, is_commit=is_commit)
        marker, led_by = log.entries[-1], log.epoch
        self.appended(log)
        self.wake(log)

        def look() -> None:
            if log.epoch != led_by:
                log.note_unheard(marker)
                done(False)
            elif log.high_watermark > marker.last:
                done(True)
            else:
                self.world.after(MARKER_LOOKS_S, look)

        look()

    def _end_offsets(self, group: str, producer_id: int, is_commit: bool) -> None:
        pending = self.group(group).pending.pop(producer_id, {})
        if is_commit:
            self.group(group).offsets |= pending


class Broker:
    """One broker: it answers the requests of a connection one after the other.

    Attributes:
        hangs_until_s: It begins nothing before.
        answer_delay_s: Drawn for each answer; None: there is no delay.
        cut_chance: How likely a connection ends in place of an answer.
    """

    def __init__(self, cluster: Cluster, node: int, alias: str) -> None:
        self.cluster = cluster
        self.node = node
        self.name = f"{alias}{node}"
        self.host = self.name.lower()
        self.is_down = False
        self.generation = 0
        self.hangs_until_s = 0.0
        self.delay_s: tuple[float, float] | None = None
        self.cut_chance = 0.0
        self.answered = 0
        self._links: dict[Link, None] = {}
        self._fetches = Fetches(cluster, node)
        self._waiting: list[_Produced] = []

    # --- connections --------------------------------------------------------------------------------------------

    def take_up(self, link: Link) -> None:
        """Begin the next request of a connection, unless it still answers one."""
        world = self.cluster.world
        if self.is_down or link.is_busy or not link.requests:
            return
        self._links[link] = None
        link.is_busy = True
        frame, generation = link.requests.popleft(), self.generation
        wait_s = max(0.0, self.hangs_until_s - world.now_s) + world.dice.uniform(*SERVICE_S)
        if self.delay_s is not None and world.dice.random() < 0.5:
            wait_s += world.dice.uniform(*self.delay_s)
        world.after(wait_s, lambda: self._handle(link, frame, generation))

    def _handle(self, link: Link, frame: bytes, generation: int) -> None:
        if self.is_down or generation != self.generation:
            return
        api, version, correlation = struct.unpack_from(">hhi", frame)
        request = request_of(frame)
        self.cluster.world.note(f"{link.loop.name} {self.name} #{link.number} api {api}")

        def answer(message: Any) -> None:
            if not self.is_down and generation == self.generation:
                self._answer(link, api, correlation, message)

        self._handlers()[api](request, version, answer)

    def _answer(self, link: Link, api: int, correlation: int, message: Any) -> None:
        world = self.cluster.world
        self.answered += 1
        if self.cut_chance and api != _VERSIONS and world.dice.random() < self.cut_chance:
            world.note(f"{self.name} #{link.number} ends in place of an answer to api {api}")
            link.end_broker()
            return
        delay_s = 0.0
        if self.delay_s is not None and world.dice.random() < 0.5:
            delay_s = world.dice.uniform(*self.delay_s)
        frame = answered(api, correlation, message)

        def send() -> None:
            link.respond(frame)
            link.is_busy = False
            if link.is_gone:
                self._links.pop(link, None)
            else:
                self.take_up(link)

        if delay_s:
            world.after(delay_s, send)
        else:
            send()

    def stop(self) -> None:
        """End all connections, and forget what is under way."""
        self.is_down = True
        self.generation += 1
        self._waiting.clear()
        self._fetches.clear()
        links, self._links = self._links, {}
        for link in links:
            link.end_broker()
            link.is_busy = False
            link.requests.clear()

    def start(self) -> None:
        """Accept connections again."""
        was_down, self.is_down = self.is_down, False
        if was_down and self.cluster.has_old_records:
            for log in self.cluster.logs.values():
                if "internal" not in log.topic:
                    log.restarted(self.node)

    def reset_links(self, chance: float) -> int:
        """End connections at random; return how many."""
        dice, ended = self.cluster.world.dice, 0
        for link in tuple(self._links):
            if not link.is_gone and dice.random() < chance:
                link.end_broker()
                ended += 1
        return ended

    # --- requests -----------------------------------------------------------------------------------------------

    def _handlers(self) -> dict[int, Callable[[Any, int, Answer], None]]:
        return {
            0: self._produce,
            1: self._fetches.fetch,
            2: self._list_offsets,
            3: self._metadata,
            8: self._commit,
            9: self._committed,
            10: self._coordinator,
            15: self._described,
            16: self._groups,
            _VERSIONS: self._versions,
            22: self._init_producer_id,
            24: self._add_partitions,
            25: self._add_offsets,
            26: self._end_transaction,
            28: self._commit_in_transaction,
        }

    def _versions(self, _: Any, version: int, answer: Answer) -> None:
        module = answers(_VERSIONS, version)
        highest = 5 if self.cluster.is_second else 3
        api_versions = SPOKEN | {26: (0, highest), 28: (0, highest)}
        keys = tuple(
            module.ApiVersion(api_key=key, min_version=low, max_version=top) for key, (low, top) in api_versions.items()
        )
        features = ()
        if self.cluster.is_second:
            kind = module.FinalizedFeatureKey
            features = (kind(name="transaction.version", max_version_level=2, min_version_level=2),)
        response = make(
            module.ApiVersionsResponse,
            error_code=OK,
            api_keys=keys,
            throttle_time=NOTHING_S,
            finalized_features_epoch=1,
            finalized_features=features,
        )
        answer(response)

    def _metadata(self, request: Any, version: int, answer: Answer) -> None:
        module, cluster = answers(3, version), self.cluster
        up = [cluster.brokers[node] for node in cluster.alive()]
        named = tuple(
            make(module.MetadataResponseBroker, node_id=one.node, host=one.host, port=9092, rack=None) for one in up
        )
        topics = tuple(self._topic(module, one.name) for one in request.topics or ())
        response = make(
            module.MetadataResponse,
            throttle_time=NOTHING_S,
            brokers=named,
            controller_id=1,
            topics=topics,
            cluster_id="c",
        )
        answer(response)

    def _topic(self, module: Any, name: str) -> Any:
        nodes = tuple(self.cluster.brokers)
        alive = tuple(self.cluster.alive())
        parts = tuple(
            make(
                module.MetadataResponsePartition,
                error_code=OK if log.leader is not None else ErrorCode.leader_not_available,
                partition_index=log.number,
                leader_id=-1 if log.leader is None else log.leader,
                leader_epoch=log.epoch,
                replica_nodes=nodes,
                isr_nodes=alive,
                offline_replicas=(),
            )
            for log in self.cluster.partitions(name)
        )
        code = OK if parts else ErrorCode.unknown_topic_or_partition
        topic_id = self.cluster.topic_ids.get(name)
        return make(module.MetadataResponseTopic, error_code=code, name=name, topic_id=topic_id, partitions=parts)

    def _coordinator(self, request: Any, version: int, answer: Answer) -> None:
        node = self.cluster.coordinator(request.key)
        broker = self.cluster.brokers.get(node or 0)
        answer(
            make(
                answers(10, version).FindCoordinatorResponse,
                throttle_time=NOTHING_S,
                error_code=OK if broker is not None else ErrorCode.coordinator_not_available,
                error_message=None,
                node_id=-1 if broker is None else broker.node,
                host="" if broker is None else broker.host,
                port=9092,
            )
        )

    def _list_offsets(self, request: Any, version: int, answer: Answer) -> None:
        module = answers(2, version)

        def part(topic: str, one: Any) -> Any:
            log = self.cluster.log_by(topic, one.partition_index)
            code, offset = self._leads(log), -1
            if log is not None and code is OK:
                ends = log.end if request.replica_id == -2 else log.high_watermark
                if getattr(request, "isolation_level", 0) == 1:
                    ends = log.last_stable
                offset = 0 if one.timestamp == -2 else ends
            return make(
                module.ListOffsetsPartitionResponse,
                partition_index=one.partition_index,
                error_code=code,
                timestamp=-1,
                offset=offset,
                leader_epoch=log.epoch if log is not None else -1,
            )

        topics = tuple(
            module.ListOffsetsTopicResponse(
                name=topic.name, partitions=tuple(part(topic.name, p) for p in topic.partitions)
            )
            for topic in request.topics
        )
        answer(make(module.ListOffsetsResponse, throttle_time=NOTHING_S, topics=topics))

    def _leads(self, log: PartitionLog | None) -> ErrorCode:
        if log is None:
            return ErrorCode.unknown_topic_or_partition
        return OK if log.leader == self.node else ErrorCode.not_leader_or_follower

    # --- producing ----------------------------------------------------------------------------------------------

    def _produce(self, request: Any, version: int, answer: Answer) -> None:
        waits = _Produced(self, request, version, answer)
        if not waits.look():
            self._waiting.append(waits)
            self.cluster.world.after(request.timeout.total_seconds(), waits.time_out)

    def append(self, log: PartitionLog | None, data: bytes, *, is_transactional: bool) -> tuple[ErrorCode, int]:
        """Append a batch that a client sent; return the error and the base offset."""
        code = self._leads(log)
        if log is None or code is not OK:
            return code, NO_OFFSET
        producer_id, epoch = struct.unpack_from(">qh", data, 43)
        known = log.producers.get(producer_id)
        has_begun = known is not None and known.epoch == epoch and known.began_at is not None
        if is_transactional and not has_begun:
            code = self.cluster.transactions.takes(producer_id, epoch, (log.topic, log.number))
            if code is not OK:
                return code, NO_OFFSET
        before = log.end
        code, base = log.append(data)
        (sequence,) = struct.unpack_from(">i", data, 53)
        self.cluster.world.note(
            f"{self.name} {log.name} {producer_id}/{epoch}/{sequence}: {code.name} at {base}"
            + ("" if log.end > before else " (nothing appended)")
        )
        if log.end > before:
            self.cluster.appended(log)
        return code, base

    def look_again(self, log: PartitionLog) -> None:
        """Answer what has waited for a partition."""
        self._waiting = [waits for waits in self._waiting if not waits.look()]
        self._fetches.look_again(log)

    # --- groups -------------------------------------------------------------------------------------------------

    def _commit(self, request: Any, version: int, answer: Answer) -> None:
        code = self.cluster.refuses_as_coordinator(self.node, request.group_id)
        places = _offsets_in(request)
        if code is OK:
            known = {place: at for place, at in places.items() if place in self.cluster.logs}
            self.cluster.group(request.group_id).offsets |= known
            self.cluster.on_commit(request.group_id, known)
        answer(_codes(answers(8, version), "OffsetCommitResponse", places, code))

    def _committed(self, request: Any, version: int, answer: Answer) -> None:
        module = answers(9, version)
        code = self.cluster.refuses_as_coordinator(self.node, request.group_id)
        group = self.cluster.group(request.group_id)
        pending = {place for places in group.pending.values() for place in places} if request.require_stable else set()

        def part(place: TopicPartition) -> Any:
            is_unstable = place in pending
            offset, metadata = group.offsets.get(place, (-1, ""))
            return make(
                module.OffsetFetchResponsePartition,
                partition_index=place[1],
                committed_offset=-1 if is_unstable else offset,
                committed_leader_epoch=-1,
                metadata="" if is_unstable else metadata,
                error_code=ErrorCode.unstable_offset_commit if is_unstable else OK,
            )

        wanted = group.by_topic() if request.topics is None else {t.name: t.partition_indexes for t in request.topics}
        topics = tuple(
            module.OffsetFetchResponseTopic(name=name, partitions=tuple(part((name, number)) for number in numbers))
            for name, numbers in (wanted.items() if code is OK else ())
        )
        answer(make(module.OffsetFetchResponse, throttle_time=NOTHING_S, topics=topics, error_code=code))

    def _groups(self, _: Any, version: int, answer: Answer) -> None:
        module = answers(16, version)
        groups = tuple(
            make(module.ListedGroup, group_id=name, protocol_type="consumer", group_state="Empty", group_type="classic")
            for name in self.cluster.groups
            if self.cluster.coordinator(name) == self.node
        )
        answer(make(module.ListGroupsResponse, throttle_time=NOTHING_S, error_code=OK, groups=groups))

    def _described(self, request: Any, version: int, answer: Answer) -> None:
        module = answers(15, version)
        groups = tuple(
            make(
                module.DescribedGroup,
                error_code=self.cluster.refuses_as_coordinator(self.node, name),
                error_message=None,
                group_id=name,
                group_state="Empty",
                protocol_type="consumer",
                protocol_data="",
                members=(),
            )
            for name in request.groups
        )
        answer(make(module.DescribeGroupsResponse, throttle_time=NOTHING_S, groups=groups))

    # --- transactions -------------------------------------------------------------------------------------------

    def _init_producer_id(self, request: Any, version: int, answer: Answer) -> None:
        name = request.transactional_id
        producer_id, epoch = -1, -1
        if name is None:
            code, producer_id, epoch = OK, self.cluster.next_producer_id(), 0
        else:
            code = self.cluster.refuses_as_coordinator(self.node, name)
            if code is OK:
                timeout_s = request.transaction_timeout.total_seconds()
                code, producer_id, epoch = self.cluster.transactions.init(name, timeout_s)
        kind = answers(22, version).InitProducerIdResponse
        answer(make(kind, throttle_time=NOTHING_S, error_code=code, producer_id=producer_id, producer_epoch=epoch))

    def _add_partitions(self, request: Any, version: int, answer: Answer) -> None:
        module = answers(24, version)
        name = request.v3_and_below_transactional_id
        who = name, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
        refusal = self.cluster.refuses_as_coordinator(self.node, name)

        def code(place: TopicPartition) -> ErrorCode:
            return refusal if refusal is not OK else self.cluster.transactions.add(*who, place=place)

        topics = tuple(
            module.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    module.AddPartitionsToTxnPartitionResult(
                        partition_index=number, partition_error_code=code((topic.name, number))
                    )
                    for number in topic.partitions
                ),
            )
            for topic in request.v3_and_below_topics
        )
        kind = module.AddPartitionsToTxnResponse
        answer(kind(throttle_time=NOTHING_S, results_by_topic_v3_and_below=topics))

    def _add_offsets(self, request: Any, version: int, answer: Answer) -> None:
        name = request.transactional_id
        code = self.cluster.refuses_as_coordinator(self.node, name)
        if code is OK:
            who = name, request.producer_id, request.producer_epoch
            code = self.cluster.transactions.add(*who, group=request.group_id)
        answer(answers(25, version).AddOffsetsToTxnResponse(throttle_time=NOTHING_S, error_code=code))

    def _commit_in_transaction(self, request: Any, version: int, answer: Answer) -> None:
        group = request.group_id
        code = self.cluster.refuses_as_coordinator(self.node, group)
        if code is OK:
            who = request.transactional_id, request.producer_id, request.producer_epoch
            code = self.cluster.transactions.takes_offsets(*who, group)
        places = _offsets_in(request)
        if code is OK:
            self.cluster.group(group).pending.setdefault(request.producer_id, {}).update(places)
        answer(_codes(answers(28, version), "TxnOffsetCommitResponse", places, code))

    def _end_transaction(self, request: Any, version: int, answer: Answer) -> None:
        name = request.transactional_id
        code, producer_id, epoch = self.cluster.refuses_as_coordinator(self.node, name), -1, -1
        if code is OK:
            who = name, request.producer_id, request.producer_epoch
            code, producer_id, epoch = self.cluster.transactions.end(*who, is_commit=request.committed)
        kind = answers(26, version).EndTxnResponse
        answer(make(kind, throttle_time=NOTHING_S, error_code=code, producer_id=producer_id, producer_epoch=epoch))


class _Produced:
    """A produce request that waits until all replicas have its batches, or its time is over."""

    def __init__(self, broker: Broker, request: Any, version: int, answer: Answer) -> None:
        self._broker = broker
        self._version = version
        self._answer: Answer | None = answer
        is_transactional = request.transactional_id is not None
        self._topics: list[tuple[Any, list[list[Any]]]] = []  # [partition, log, code, base, end, epoch]
        for topic in request.topic_data:
            named = getattr(topic, "topic_id", None) or topic.name
            parts = []
            for one in topic.partition_data:
                log = broker.cluster.log_by(named, one.index)
                code, base = broker.append(log, bytes(one.records), is_transactional=is_transactional)
                end, epoch = (log.end, log.epoch) if log is not None and code is OK else (0, 0)
                parts.append([one.index, log, code, base, end, epoch])
            self._topics.append((topic, parts))

    def look(self) -> bool:
        """Answer if there is nothing to wait for."""
        if self._answer is None:
            return True
        is_done = True
        for _, parts in self._topics:
            for part in parts:
                _, log, code, _, end, epoch = part
                if log is not None and code is OK:
                    if log.epoch != epoch:
                        part[2], part[3] = ErrorCode.not_leader_or_follower, NO_OFFSET
                    elif log.high_watermark < end:
                        is_done = False
        if is_done:
            self._end()
        return is_done

    def time_out(self) -> None:
        """Answer what is known now."""
        if self._answer is None or self.look():
            return
        for _, parts in self._topics:
            for part in parts:
                _, log, code, _, end, _ = part
                if log is not None and code is OK and log.high_watermark < end:
                    part[2], part[3] = ErrorCode.request_timed_out, NO_OFFSET
        self._end()

    def _end(self) -> None:
        module = answers(0, self._version)
        topics = tuple(
            make(
                module.TopicProduceResponse,
                name=getattr(topic, "name", None),
                topic_id=getattr(topic, "topic_id", None),
                partition_responses=tuple(
                    make(
                        module.PartitionProduceResponse,
                        index=number,
                        error_code=code,
                        base_offset=base,
                        log_append_time=None,
                        log_start_offset=0,
                        record_errors=(),
                        error_message=None,
                    )
                    for number, _, code, base, _, _ in parts
                ),
            )
            for topic, parts in self._topics
        )
        answer, self._answer = self._answer, None
        if answer is not None:
            answer(make(module.ProduceResponse, responses=topics, throttle_time=NOTHING_S))


def _offsets_in(request: Any) -> dict[TopicPartition, tuple[int, str]]:
    return {
        (topic.name, part.partition_index): (part.committed_offset, part.committed_metadata or "")
        for topic in request.topics
        for part in topic.partitions
    }


def _codes(module: Any, name: str, places: Iterable[TopicPartition], code: ErrorCode) -> Any:
    topic_kind, part_kind = getattr(module, f"{name}Topic"), getattr(module, f"{name}Partition")
    by_topic: dict[str, list[int]] = {}
    for topic, number in places:
        by_topic.setdefault(topic, []).append(number)
    topics = tuple(
        topic_kind(
            name=topic, partitions=tuple(part_kind(partition_index=number, error_code=code) for number in numbers)
        )
        for topic, numbers in by_topic.items()
    )
    return make(getattr(module, name), throttle_time=NOTHING_S, topics=topics)
