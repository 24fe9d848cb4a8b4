"""Write heartbeats like MirrorMaker: one record per flow and interval to `heartbeats` on the target."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from mirror.config.settings import HeartbeatFlow
from mirror.errors import ClusterUnavailable, MirrorError
from mirror.kafka.appender import NoTopicError
from mirror.kafka.cluster import Cluster
from mirror.model.mm2_records import Heartbeat
from mirror.runtime.clock import now_ms
from mirror.runtime.logs import level_once

log = logging.getLogger("mirror")

KEEP_S = 10.0  # a heartbeat that is not written within this time is obsolete
TOPIC_AGAIN_S = 60.0
_POLICY = "cleanup.policy"
STOP_S = 5.0


class HeartbeatEmitter:
    """Writes heartbeats until it is stopped. Each target has its own thread, so that no target delays another."""

    def __init__(
        self,
        flows: Sequence[HeartbeatFlow],
        on_ack: Callable[[tuple[str, str]], None],
        is_ours: Callable[[tuple[str, str]], bool] = lambda _: True,
    ) -> None:
        """Prepare to write heartbeats.

        Args:
            flows: Heartbeats to write, one entry per flow.
            on_ack: Called with the aliases of a flow when its target has acknowledged a heartbeat.
            is_ours: Returns whether this process writes a flow's heartbeats. Of several processes that share a flow, only one
                does.
        """
        targets = dict.fromkeys(flow.target for flow in flows)
        self._stop_requested = threading.Event()
        self._threads = [
            _TargetHeartbeats([flow for flow in flows if flow.target == target], on_ack, is_ours, self._stop_requested)
            for target in targets
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the threads, and drop heartbeats that are not acknowledged."""
        self._stop_requested.set()
        deadline_s = time.monotonic() + STOP_S
        for thread in self._threads:
            thread.give_up(max(0.0, deadline_s - time.monotonic()))


class _TargetHeartbeats(threading.Thread):
    """Writes the heartbeats of all flows to one target."""

    def __init__(
        self,
        flows: Sequence[HeartbeatFlow],
        on_ack: Callable[[tuple[str, str]], None],
        is_ours: Callable[[tuple[str, str]], bool],
        stop_requested: threading.Event,
    ) -> None:
        super().__init__(name=f"heartbeats {flows[0].target}", daemon=True)
        self._flows = flows
        self._on_ack = on_ack
        self._is_ours = is_ours
        self._stop_requested = stop_requested
        self._cluster = Cluster(flows[0].target, flows[0].client)
        self._has_topic: set[HeartbeatFlow] = set()  # flows whose topic exists
        self._topic_due_s: dict[HeartbeatFlow, float] = {}  # by flow: when to try again to create the topic
        self._refused: dict[HeartbeatFlow, str] = {}
        self._logged: set[str] = set()  # topics whose other cleanup policy was logged

    def run(self) -> None:
        """Write heartbeats, each flow's at its own interval."""
        due_s = dict.fromkeys(self._flows, 0.0)
        while True:
            now_s = time.monotonic()
            for flow in self._flows:
                if due_s[flow] <= now_s:
                    due_s[flow] = now_s + flow.interval_s
                    if self._is_ours((flow.source, flow.target)):
                        self._emit(flow)
            if self._stop_requested.wait(max(0.05, min([*due_s.values(), now_s + 1]) - time.monotonic())):
                return

    def give_up(self, within_s: float) -> None:
        """Wait until the thread ends, and drop heartbeats that are not acknowledged."""
        if self.ident is not None:
            self.join(within_s)
        self._cluster.close()

    def _emit(self, flow: HeartbeatFlow) -> None:
        if not self._ensure_topic(flow):
            return
        heartbeat = Heartbeat(flow.source, flow.target, int(now_ms()))
        try:
            self._cluster.append(flow.topic, [heartbeat.encode()], timestamp_ms=heartbeat.timestamp_ms, within_s=KEEP_S)
        except NoTopicError as error:
            self._has_topic.discard(flow)  # the next heartbeat creates it
            self._topic_due_s.pop(flow, None)
            self._refuse(flow, str(error))
        except MirrorError as error:
            self._refuse(flow, str(error))
        else:
            self._refused.pop(flow, None)
            self._on_ack((flow.source, flow.target))

    def _ensure_topic(self, flow: HeartbeatFlow) -> bool:
        """Create the topic if it is missing; log a refusal, and retry after a minute."""
        if flow in self._has_topic:
            return True
        if time.monotonic() < self._topic_due_s.get(flow, 0.0):
            return False
        self._topic_due_s[flow] = time.monotonic() + TOPIC_AGAIN_S
        try:
            objection = self._cluster.create(
                flow.topic, partitions=1, replication_factor=flow.replication_factor, configs={_POLICY: "compact"}
            )
            if not objection:
                self._warn_of_policy(flow)
        except ClusterUnavailable as error:
            objection = str(error)
        finally:
            self._cluster.close()  # an idle admin client keeps threads and connections
        if objection:
            self._refuse(flow, f"topic {flow.topic} cannot be created: {objection}")
            return False
        self._has_topic.add(flow)
        return True

    def _warn_of_policy(self, flow: HeartbeatFlow) -> None:
        """Log that the topic is not compacted. Leave it so: MirrorMaker and other mirrors use it too."""
        try:
            policy = self._cluster.configs([flow.topic])[flow.topic][_POLICY].value
        except (ClusterUnavailable, KeyError) as error:
            log.debug("%s: the cleanup policy of %s is not known: %r", flow.target, flow.topic, error)
            return
        if policy != "compact":
            log.log(
                level_once(self._logged, flow.topic),
                "%s on %s has %s=%s, which is not changed, because other mirrors write to it too. To compact it: "
                "kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config %s=compact",
                flow.topic,
                flow.target,
                _POLICY,
                policy,
                flow.client["bootstrap.servers"],
                flow.topic,
                _POLICY,
            )

    def _refuse(self, flow: HeartbeatFlow, why: str) -> None:
        if self._refused.get(flow) != why and not self._stop_requested.is_set():
            log.warning("%s->%s: no heartbeat: %s", flow.source, flow.target, why)
        self._refused[flow] = why
