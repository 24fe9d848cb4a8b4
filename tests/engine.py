"""Run the driver on forked Python processes instead of Spark, for tests that do not look at Spark.

The driver, planner, workers, leases, recorder, signals, exit codes, log and state folder are the product's. Spark's place takes
a pool: any idle worker serves any task, a task whose worker dies is repeated as a retry, and four deaths end its lane.

Processes:
    fork server (modules loaded, no threads) -> driver -> forker (no threads) -> workers
Each ends with its parent. /proc/PID/comm names the forker and the workers.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import logging
import os
import pickle
import queue
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Self

from metrics.listener import Stream
from metrics.recorder import Recorder
from metrics.reports import WindowReport
from mirror.appliance import Appliance
from mirror.cli import main
from mirror.errors import StreamTerminated
from mirror.model.flow_plan import window_at
from mirror.replication.worker import serve_slot
from mirror.runtime.engine import Engine
from mirror.runtime.state_folder import StateFolder
from mirror.spark.checkpoint_source import CheckpointReader
from mirror.spark.queries import OBSERVED, OBSERVED_CHECKPOINTS, lane_name
from mirror.spark.replication_source import LaneReader, SlotPartition, lane_options
from tests.fork_server import Request

WORKER, FORKER = b"km-worker", b"km-forker"  # as /proc/PID/comm shows them
ATTEMPTS = 4  # as spark.task.maxFailures of the product
_PARENT_DEATH_SIGNAL, _NAME = 1, 15  # of prctl(2)
_LENGTH = struct.Struct(">I")


class LocalEngine:
    """Implements `mirror.runtime.engine.Engine` with threads for lanes and forked processes for tasks."""

    forker: ClassVar[Forker]  # of this process, forked before it has threads

    def __init__(self) -> None:
        self._pool = Pool(self.forker)
        self._recorder = Recorder()
        self._on_batch: Callable[[str], None] = lambda _: None
        self._streams: Mapping[str, Stream[Any]] = {}

    @classmethod
    def start(cls, settings: Mapping[str, str], *, tasks: int) -> Self:
        """Return the engine; a worker is forked when a task needs one."""
        return cls()

    def listen(self, recorder: Recorder, streams: Mapping[str, Stream[Any]], on_batch: Callable[[str], None]) -> None:
        """Pass rows to their streams, and progress to the recorder."""
        self._recorder, self._streams, self._on_batch = recorder, streams, on_batch

    def lanes(self, folder: StateFolder, *, plan: Path, lanes: int, slots: int, window_ms: int) -> LocalLanes:
        """Return the lanes."""
        options = lane_options(folder, plan=plan, lanes=lanes, slots=slots, window_ms=window_ms)
        return LocalLanes([Lane(options, lane, self._pool, self) for lane in range(lanes)])

    def checkpoints(self, folder: StateFolder, *, plan: Path, every_s: float) -> LocalCheckpoints:
        """Return the rounds of checkpoints."""
        return LocalCheckpoints(plan, every_s, self)

    def progress(self, name: str, stream: str, rows: Sequence[Any], took_s: float) -> None:
        """Record what a query did, as the listener of Spark's queries does."""
        self._recorder.store.count("kafka_mirror_listener_events_total", ("progress",))
        if rows:
            self._streams[stream].take(rows, now_s=time.time())
        self._recorder.record_phase(name, "addBatch", took_s)
        self._on_batch(name)

    def active(self, name: str, *, is_active: bool) -> None:
        """Record whether a query runs."""
        self._recorder.record_query(name, is_active=is_active)

    def silence(self) -> None:
        """Do nothing: this engine logs nothing."""

    def close(self) -> None:
        """End all workers."""
        self._pool.close()


class LocalLanes:
    """The lanes of a process."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes

    def start(self) -> None:
        """Start each lane's thread."""
        for lane in self._lanes:
            lane.start()

    def revive(self) -> list[StreamTerminated]:
        """Restart lanes that a task has ended."""
        ended = [lane for lane in self._lanes if lane.failure is not None]
        failures = [StreamTerminated(f"{lane.name} ended: {lane.failure}") for lane in ended]
        for lane in ended:
            lane.start()
        return failures

    def finish(self, within_s: float) -> bool:
        """Wait for the running windows."""
        deadline = time.monotonic() + within_s
        return all(lane.join(max(0.0, deadline - time.monotonic())) for lane in self._lanes)

    def stop(self) -> None:
        """Do nothing: the engine's end ends the workers."""


class Lane:
    """One window after the other, each with a task per slot."""

    def __init__(self, options: Mapping[str, str], number: int, pool: Pool, engine: LocalEngine) -> None:
        self.name = lane_name(number)
        self.failure: Exception | None = None
        self._options, self._number, self._pool, self._engine = options, number, pool, engine
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin at the lane's next window."""
        first, lanes = window_at(time.time() * 1000, int(self._options["window_ms"])), int(self._options["lanes"])
        first += (self._number - first) % lanes
        reader = LaneReader({**self._options, "lane": str(self._number), "first": str(first)})
        self.failure = None
        self._thread = threading.Thread(target=self._run, args=(reader,), name=self.name, daemon=True)
        self._thread.start()

    def join(self, within_s: float) -> bool:
        """Wait for the lane's end; return False if the time is too short."""
        if self._thread is None:
            return True
        self._thread.join(within_s)
        return not self._thread.is_alive()

    def _run(self, reader: LaneReader) -> None:
        self._engine.active(self.name, is_active=True)
        try:
            start = reader.initialOffset()
            while (end := reader.latestOffset(start, None)) != start:
                began = time.monotonic()
                rows = self._pool.serve(reader.partitions(start, end))
                self._engine.progress(self.name, OBSERVED, rows, time.monotonic() - began)
                start = end
        except Exception as error:  # noqa: BLE001 - `revive` reports it
            self._engine.active(self.name, is_active=False)
            self.failure = error


class LocalCheckpoints:
    """A thread that does rounds of checkpoints in the driver; Spark does them in a process."""

    def __init__(self, plan: Path, every_s: float, engine: LocalEngine) -> None:
        self._reader = CheckpointReader({"plan": str(plan)})
        self._every_s, self._engine = every_s, engine
        self._ends = threading.Event()

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="checkpoints", daemon=True).start()

    def _run(self) -> None:
        at = self._reader.initialOffset()
        self._engine.active("checkpoints", is_active=True)
        while not self._ends.is_set():
            began = time.monotonic()
            rows, at = self._reader.read(at)
            self._engine.progress("checkpoints", OBSERVED_CHECKPOINTS, list(rows), time.monotonic() - began)
            self._ends.wait(max(0.0, self._every_s - (time.monotonic() - began)))

    def revive(self) -> list[StreamTerminated]:
        """Return nothing: a round reports its failures as rows."""
        return []

    def stop(self) -> None:
        """Begin no other round."""
        self._ends.set()


# --- processes ----------------------------------------------------------------------------------------------------


class Pool:
    """Idle workers, any for any task, as those of Spark's daemon."""

    def __init__(self, forker: Forker) -> None:
        self._forker = forker
        self._idle: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()

    def serve(self, tasks: Sequence[SlotPartition]) -> list[WindowReport]:
        """Serve all tasks of a window at once; return their rows.

        Raises:
            StreamTerminated: a task failed as often as Spark would try it.
        """
        found: list[list[WindowReport] | Exception] = [[] for _ in tasks]

        def run(at: int, task: SlotPartition) -> None:
            try:
                found[at] = self._serve(task)
            except Exception as error:  # noqa: BLE001 - raised below, in the lane's thread
                found[at] = error

        threads = [threading.Thread(target=run, args=each, daemon=True) for each in enumerate(tasks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rows: list[WindowReport] = []
        for one in found:
            if isinstance(one, Exception):
                raise one
            rows += one
        return rows

    def _serve(self, task: SlotPartition) -> list[WindowReport]:
        failure: object = None
        for attempt in range(ATTEMPTS):
            try:
                worker = self._idle.get_nowait()
            except queue.Empty:
                worker = self._forker.fork()
            try:
                _send(worker, (replace(task.window, is_retry=attempt > 0), task.flows))
                rows = _receive(worker)
            except (EOFError, OSError) as error:  # the worker is gone
                worker.close()
                failure = error
                continue
            self._idle.put(worker)
            if not isinstance(rows, str):
                return [WindowReport(*row) for row in rows]
            failure = rows
        raise StreamTerminated(f"a task failed {ATTEMPTS} times: {failure!r}")

    def close(self) -> None:
        """End idle workers; those that serve a task end with this process."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()


class Forker:
    """A process without threads that forks workers: a process with threads cannot do so safely."""

    def __init__(self) -> None:
        """Fork it; this process must have no other threads."""
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair()
        if os.fork() == 0:
            self._control.close()
            _become(FORKER)
            _fork_on_request(theirs)
        theirs.close()

    def fork(self) -> socket.socket:
        """Return the connection to a new worker."""
        own, theirs = socket.socketpair()
        with self._lock, theirs:
            socket.send_fds(self._control, [b"f"], [theirs.fileno()])
        return own


def _fork_on_request(control: socket.socket) -> None:
    """Fork a worker for each connection that arrives; never return."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # dead workers need no wait
    gc.collect()
    gc.freeze()  # a collection in a fork would copy the pages that all share
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            os._exit(0)
        with socket.socket(fileno=descriptors[0]) as connection:
            if os.fork() == 0:
                control.close()
                _become(WORKER)
                with contextlib.suppress(EOFError, OSError):
                    _work(connection)
                os._exit(0)


def _become(name: bytes) -> None:
    """Take a name, end with the parent, and leave the driver's signals to the driver."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    prctl(_NAME, name, 0, 0, 0)
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)


def _work(connection: socket.socket) -> None:
    """Serve tasks until the driver closes the connection."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while True:
        window, flows = _receive(connection)
        try:
            rows: object = [tuple(row) for row in serve_slot(window, flows)]
        except Exception as error:  # noqa: BLE001 - the driver repeats the task
            rows = repr(error)
        _send(connection, rows)


def _send(connection: socket.socket, value: object) -> None:
    body = pickle.dumps(value)
    connection.sendall(_LENGTH.pack(len(body)) + body)


def _receive(connection: socket.socket) -> Any:
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    return pickle.loads(_exactly(connection, length))


def _exactly(connection: socket.socket, count: int) -> bytes:
    body = bytearray()
    while len(body) < count:
        part = connection.recv(count - len(body))
        if not part:
            raise EOFError
        body += part
    return bytes(body)


def run_command(request: Request) -> NoReturn:
    """Be the process `kafka-mirror ARGUMENTS`. For a fork of the fork server."""
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    os.chdir(request.folder)
    arguments = request.arguments
    for number, path in ((1, request.out), (2, request.errors)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    _hook_kill_points()
    engine: type[Engine] = LocalEngine
    Appliance.engine = engine
    if "run" in arguments or "classic" in arguments:
        LocalEngine.forker = Forker()
    try:
        code = main(arguments)
    except SystemExit as end:  # argparse's
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        logging.getLogger("mirror").exception("the command failed")
        code = 1
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _hook_kill_points() -> None:
    """Hook the modules of kill points, which are loaded already; see tests/soak/hooks."""
    if "SOAK_DIE_AT" not in os.environ:
        return
    hooks = importlib.import_module("tests.soak.hooks.sitecustomize")
    hooks.hook_all()
