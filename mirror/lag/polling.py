"""Poll each flow in a thread of its own, from the appliance's start to its end: a cluster that hangs holds up nothing else."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from metrics.recorder import Recorder
from mirror.flows.flow import FlowState
from mirror.lag.poller import Poller

log = logging.getLogger("mirror")


@dataclass(eq=False, repr=False)
class Polling:
    """The threads that poll."""

    flows: Sequence[FlowState]
    poller: Poller
    recorder: Recorder
    every_s: float
    stop: threading.Event

    def __post_init__(self) -> None:
        self._threads = [
            threading.Thread(target=self._keep_on, args=(state,), name=f"poller {state.flow.name}", daemon=True)
            for state in self.flows
        ]

    def start(self) -> None:
        """Begin to poll."""
        for thread in self._threads:
            thread.start()

    def end(self, *, within_s: float, once_more: bool) -> list[str]:
        """Wait for the polls that run, `once_more` poll what answered, and keep what is known for the next start.

        Returns:
            The flows of which a cluster does not answer.
        """
        ends_s = time.monotonic() + within_s
        for thread in self._threads:
            if thread.ident is not None:  # a stop asked for while Spark starts comes before the first poll
                thread.join(max(0.0, ends_s - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            for state in self.flows if once_more else ():
                if state.plan is not None and self.poller.is_answered(state.plan):
                    self._poll(state)
            self.poller.save()
            self.poller.close()
        return [
            state.flow.name
            for state, thread in zip(self.flows, self._threads, strict=True)
            if state.plan is not None and (thread.is_alive() or not self.poller.is_answered(state.plan))
        ]

    def _keep_on(self, state: FlowState) -> None:
        while not self.stop.is_set():
            try:
                self._poll(state)
            except Exception:
                log.exception("%s: a poll failed", state.flow.name)
                self.recorder.count("kafka_mirror_poll_errors_total", state.name)
            self.stop.wait(self.every_s)

    def _poll(self, state: FlowState) -> None:
        plan = state.served()
        if plan is not None and plan.labels:
            for names in {(labels[2], topic) for (topic, _), labels in plan.labels.items()}:
                self.recorder.info("kafka_mirror_topic_info", (*state.name, *names))
            since_s = state.membership.since_s if state.membership is not None else 0.0
            self.poller.poll(plan, state.source, state.target, since_s=since_s)
