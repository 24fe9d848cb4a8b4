"""Heartbeats: one record per flow and interval into `heartbeats` on the flow's target, as MirrorMaker writes them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mirror.config.clients import confluent_options
from mirror.config.settings import Beat
from mirror.errors import ClusterUnavailable
from mirror.kafka.admin import Admin
from mirror.kafka.clients import quiet_logger
from mirror.model.mm2_records import Heartbeat

log = logging.getLogger("mirror")

KEEP_MS = 10_000  # a heartbeat that could not be written by then says nothing any more
TOPIC_AGAIN_S = 60.0
# What librdkafka says of heartbeats without a topic: that, or nothing until their time is over.
_NO_TOPIC = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._MSG_TIMED_OUT,
)


class Heart(threading.Thread):
    """Beats until it is stopped; a target that does not answer misses its own beats only.

    Args:
        beats: What to write, one entry per flow.
        on_ack: Called with the aliases of a flow when its target has taken a heartbeat.
        is_ours: Tells of a flow whether this process beats for it; of several that share it one does.
    """

    def __init__(
        self,
        beats: Sequence[Beat],
        on_ack: Callable[[tuple[str, str]], None],
        is_ours: Callable[[tuple[str, str]], bool] = lambda _: True,
    ) -> None:
        super().__init__(name="heartbeats", daemon=True)
        self._beats = beats
        self._on_ack = on_ack
        self._is_ours = is_ours
        self._stop_asked = threading.Event()
        self._producers: dict[str, Producer] = {}  # by target
        self._topic_due_s: dict[Beat, float] = {}
        self._refused: dict[Beat, str] = {}

    def run(self) -> None:
        """Beat each flow at its own interval."""
        due_s = dict.fromkeys(self._beats, 0.0)
        while True:
            now_s = time.monotonic()
            for beat in self._beats:
                if due_s[beat] <= now_s:
                    due_s[beat] = now_s + beat.interval_s
                    if self._is_ours((beat.source, beat.target)):
                        self._beat(beat)
            for producer in list(self._producers.values()):
                producer.poll(0)
            if self._stop_asked.wait(max(0.05, min([*due_s.values(), now_s + 1]) - time.monotonic())):
                return

    def stop(self) -> None:
        """End soon; what is not acknowledged is given up."""
        self._stop_asked.set()
        if self.ident is not None:
            self.join(5)
        for producer in self._producers.values():
            producer.purge()

    def _beat(self, beat: Beat) -> None:
        if not self._has_topic(beat):
            return
        heartbeat = Heartbeat(beat.source, beat.target, int(time.time() * 1000))
        key, value = heartbeat.encode()
        try:
            self._producer(beat).produce(
                beat.topic,
                value,
                key,
                partition=0,
                timestamp=heartbeat.timestamp_ms,
                on_delivery=partial(self._answered, beat),
            )
        except (KafkaException, BufferError) as error:
            self._refuse(beat, str(error))

    def _producer(self, beat: Beat) -> Producer:
        """Return the target's producer; KafkaException where it cannot be made, for want of an OAuth token."""
        producer = self._producers.get(beat.target)
        if producer is None:
            options = {
                **confluent_options(beat.client),
                "message.timeout.ms": KEEP_MS,
                "acks": "all",
                "allow.auto.create.topics": False,
            }
            producer = self._producers[beat.target] = Producer(options, logger=quiet_logger())
        return producer

    def _has_topic(self, beat: Beat) -> bool:
        """Create the topic where it is missing; log a refusal, and try again a minute later."""
        due_s = self._topic_due_s.get(beat, 0.0)
        if time.monotonic() < due_s:
            return due_s == float("inf")
        self._topic_due_s[beat] = time.monotonic() + TOPIC_AGAIN_S
        try:
            with closing(Admin(beat.target, beat.client)) as admin:
                objection = admin.create(
                    beat.topic,
                    partitions=1,
                    replication_factor=beat.replication_factor,
                    configs={"cleanup.policy": "compact"},
                )
        except ClusterUnavailable as error:
            objection = str(error)
        if objection:
            self._refuse(beat, f"topic {beat.topic} cannot be created: {objection}")
            return False
        self._topic_due_s[beat] = float("inf")
        return True

    def _answered(self, beat: Beat, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            if error.code() == KafkaError._MSG_TIMED_OUT:
                self._producers.pop(beat.target, None)  # it may never find a broker again: mirror.kafka.admin
            if error.code() in _NO_TOPIC:
                self._topic_due_s.pop(beat, None)  # it may have been deleted: the next beat creates it then
            self._refuse(beat, error.str())
            return
        self._refused.pop(beat, None)
        self._on_ack((beat.source, beat.target))

    def _refuse(self, beat: Beat, why: str) -> None:
        if self._refused.get(beat) != why:
            log.warning("%s->%s: no heartbeat: %s", beat.source, beat.target, why)
        self._refused[beat] = why
