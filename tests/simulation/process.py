"""A simulated mirror process: its membership, and the workers of its lanes and slots, each with an event loop and a memory.

Spark plans a lane's windows one after the other, with a task for each slot. Workers keep their memory from window to window, and
their loops run only during a window. A task whose worker dies is tried again by a new worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from mirror.checkpoints.flow import FlowCheckpoints
from mirror.checkpoints.plan import CheckpointPlan
from mirror.handover.membership import Membership
from mirror.kafka.errors import KafkaError
from mirror.model.flow_plan import FlowPlan, Window, next_window
from mirror.model.slot_lease import lane_takes_s
from mirror.model.slot_ownership import SlotLayout
from mirror.replication.window import serve
from mirror.replication.worker_state import WorkerState
from mirror.runtime.lanes import LaneProgress
from tests.simulation.clock import ProcessLoop, World
from tests.simulation.network import Network

AHEAD_S = 1.0  # before its begin a window is planned (mirror.spark.replication_source)
PLANNING_S = (0.05, 0.6)  # what Spark takes for a micro-batch
RETRY_S = (0.1, 1.0)  # until a task is tried again
ATTEMPTS = 4  # of a task
CHECKPOINTS_S = 45.0  # limit of a round (mirror.spark.checkpoint_source)


class Worker:
    """One worker process: an event loop that runs during windows, and what is kept between them."""

    def __init__(self, network: Network, name: str) -> None:
        self.loop = network.loop(name)
        self.loop.is_resting = True
        self.state = WorkerState()

    def serve(self, plan: FlowPlan, window: Window, on_end: Callable[[BaseException | None], None]) -> None:
        """Serve a window; `on_end` gets what it raised."""
        loop = self.loop
        loop.is_resting = False

        def ended(task: asyncio.Task[Any]) -> None:
            loop.is_resting = True
            loop.world.after(0, lambda: on_end(None if task.cancelled() else task.exception()))

        loop.create_task(serve(plan, window, self.state)).add_done_callback(ended)


class Process:
    """One run of the mirror.

    Attributes:
        loops: Those of all its parts.
        failures: What windows raised that is not an expected failure.
    """

    def __init__(
        self,
        world: World,
        network: Network,
        plan: FlowPlan,
        layout: SlotLayout,
        *,
        name: str,
        run_id: int,
        gone: frozenset[int],
        checkpoints: CheckpointPlan | None = None,
    ) -> None:
        self.name = name
        self.run_id = run_id
        self.is_dead = self.is_stopping = self.is_frozen = False
        self.failures: list[str] = []
        self.windows = 0
        self._world = world
        self._network = network
        self._plans = plan.shares(layout.slots)
        self._layout = layout
        self._gone = gone
        self._workers: dict[tuple[int, int], Worker] = {}
        self._born = 0
        self._driver = network.loop(f"{name}/driver")
        self._dead: list[ProcessLoop] = []
        self._stop, self._end = asyncio.Event(), asyncio.Event()
        lanes = layout.lanes
        self._progress = LaneProgress(map(str, range(lanes)), longest_s=lane_takes_s(lanes, layout.window_ms))
        flow = SimpleNamespace(name=plan.name, source=SimpleNamespace(alias=plan.source), target_admin=plan.producer)
        self.membership = Membership(
            flow=flow,  # type: ignore[arg-type]
            plan=plan,
            layout=layout,
            run_id=run_id,
            gone=gone,
            settings="s",
            is_ready=lambda: True,
            hung=self._progress.hung,
        )
        self._driver.create_task(self.membership.live(self._stop, self._end))
        self._checkpointing = [network.loop(f"{name}/checkpoints")] if checkpoints is not None else []
        for loop in self._checkpointing:
            loop.create_task(self._checkpoint(checkpoints)).add_done_callback(self._check_end)
        for lane in range(layout.lanes):
            self._plan_lane(lane, 0)

    @property
    def loops(self) -> list[ProcessLoop]:
        return [self._driver, *self._checkpointing, *(worker.loop for worker in self._workers.values())]

    # --- checkpoints --------------------------------------------------------------------------------------------

    async def _checkpoint(self, plan: CheckpointPlan) -> None:
        """Make checkpoints while this process leads its flow, as mirror.spark.checkpoint_source does."""
        flow = FlowCheckpoints(plan)
        while True:
            await asyncio.sleep(plan.settings.interval_s)
            if self.membership.leads and not self.is_stopping:
                with suppress(KafkaError, OSError, TimeoutError):
                    await asyncio.wait_for(flow.checkpoint(), CHECKPOINTS_S)

    def _check_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.append(f"{self.name} checkpoints: {error!r}")

    # --- windows ------------------------------------------------------------------------------------------------

    def _plan_lane(self, lane: int, start: int) -> None:
        """Plan the next window of a lane, a moment before it begins."""
        layout = self._layout
        now_s = self._world.wall_s(self.name)
        now_ms = now_s * 1000
        first = start or int(now_ms // layout.window_ms) + 1
        first += (lane - first) % layout.lanes
        number = next_window(first, now_ms, window_ms=layout.window_ms, lanes=layout.lanes)
        due_s = number * layout.window_ms / 1000 - AHEAD_S + self._world.dice.uniform(*PLANNING_S)
        self._world.after(due_s - now_s, lambda: self._when_awake(lambda: self._begin(lane, number)))

    def _when_awake(self, action: Callable[[], None]) -> None:
        """Do something as soon as the process is not frozen, unless it dies before."""
        if self.is_frozen and not self.is_dead:
            self._world.after(0.05, lambda: self._when_awake(action))
        elif not self.is_dead:
            action()

    def _begin(self, lane: int, number: int) -> None:
        if self.is_stopping:
            return
        now_ms = self._world.wall_s(self.name) * 1000
        if now_ms >= (number + 1) * self._layout.window_ms:
            self._plan_lane(lane, number)  # it was frozen meanwhile
            return
        self.windows += 1
        left = {slot for slot in range(self._layout.slots) if self._plans[slot].partitions}

        def ended(slot: int) -> None:
            left.discard(slot)
            if not left:
                self._progress.completed(str(lane))
                self._when_awake(lambda: self._plan_lane(lane, number + self._layout.lanes))

        for slot in sorted(left):
            window = Window(
                number=number,
                window_ms=self._layout.window_ms,
                lanes=self._layout.lanes,
                slots=self._layout.slots,
                slot=slot,
                run_id=self.run_id,
                gone=self._gone,
            )
            self._attempt(lane, window, 0, lambda slot=slot: ended(slot))

    def _attempt(self, lane: int, window: Window, attempt: int, on_end: Callable[[], None]) -> None:
        worker = self._worker(lane, window.slot)
        worker.loop.on_death = lambda: self._lose(lane, window, attempt, on_end)

        def ended(error: BaseException | None) -> None:
            if self.is_dead or worker.loop.is_dead:
                return
            if error is not None:
                self.failures.append(f"{self.name} window {window.number} slot {window.slot}: {error!r}")
            on_end()

        worker.serve(self._plans[window.slot], replace(window, is_retry=attempt > 0), ended)

    def _worker(self, lane: int, slot: int) -> Worker:
        found = self._workers.get((lane, slot))
        if found is None or found.loop.is_dead:
            self._born += 1
            found = self._workers[lane, slot] = Worker(self._network, f"{self.name}/{lane}.{slot}.{self._born}")
            found.loop.is_frozen = self.is_frozen
        return found

    # --- faults -------------------------------------------------------------------------------------------------

    def kill_worker(self, number: int, *, after_steps: int) -> None:
        """Kill one worker after so many of its callbacks."""
        workers = list(self._workers.values())
        if workers:
            workers[number % len(workers)].loop.dies_after = after_steps

    def hang_worker(self, number: int, seconds: float) -> None:
        """Freeze one worker, while its process and the process' driver go on."""
        workers = [worker for worker in self._workers.values() if not worker.loop.is_dead]
        if not workers:
            return
        loop = workers[number % len(workers)].loop
        self._world.note(f"the worker {loop.name} freezes")
        loop.is_frozen = True

        def wake() -> None:
            loop.is_frozen = self.is_frozen

        self._world.after(seconds, wake)

    def _lose(self, lane: int, window: Window, attempt: int, on_end: Callable[[], None]) -> None:
        worker = self._workers[lane, window.slot]
        if worker.loop.is_resting or worker.loop.is_dead:
            return
        self._world.note(f"the worker {worker.loop.name} is killed in window {window.number}")
        self._end_loop(worker.loop)
        if attempt + 1 >= ATTEMPTS:
            on_end()
            return
        retry_s = self._world.dice.uniform(*RETRY_S)
        again = lambda: self._attempt(lane, window, attempt + 1, on_end)  # noqa: E731
        self._world.after(retry_s, lambda: self._when_awake(again))

    def kill(self) -> None:
        """Kill the process with all its parts."""
        if not self.is_dead:
            self._world.note(f"{self.name} is killed")
            self.is_dead = True
            for loop in self.loops:
                self._end_loop(loop)

    def kill_after(self, steps: int) -> None:
        """Kill the process after so many callbacks of one of its parts."""
        loops = self.loops
        loop = loops[steps % len(loops)]
        if loop is self._driver or not loop.is_resting:
            loop.on_death = self.kill
            loop.dies_after = steps
        else:
            self.kill()

    def _end_loop(self, loop: ProcessLoop) -> None:
        if loop.is_dead:
            return
        loop.is_dead = True
        self._world.loops.remove(loop)
        self._dead.append(loop)
        for link in tuple(self._network.links):
            if link.loop is loop:
                link.end_client()

    def freeze(self) -> None:
        """Run nothing until `wake`."""
        self._world.note(f"{self.name} freezes")
        self.is_frozen = True
        for loop in self.loops:
            loop.is_frozen = True

    def wake(self) -> None:
        """Go on."""
        self._world.note(f"{self.name} wakes")
        self.is_frozen = False
        for loop in self.loops:
            loop.is_frozen = False

    def stop(self) -> None:
        """Stop as on SIGTERM: give the slots to others, let windows end, then end."""
        self._world.note(f"{self.name} stops")
        self.is_stopping = True
        self._driver.call_soon(self._stop.set)
        self._world.after(20.0, self.kill)

    def dispose(self) -> None:
        """End what is left of it, when the run is over."""
        for loop in [*self.loops, *self._dead]:
            if not loop.is_closed():
                loop.dispose()
