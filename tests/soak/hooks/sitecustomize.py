"""Kill points: a process of a stage dies where a test says, as by kill -9.

Python imports this by itself where this folder is on its path, which a stage arranges for its processes alone: what is in
production has no such hooks. While the file SOAK_DIE_AT is there, it names a point and how often it is passed by before. Who
comes there that time takes the file away, so that nobody else dies, leaves its process id, and is gone.

A process whose environment has SOAK_CLOCK_AHEAD_S reads a wall clock that is ahead by so many seconds. All wall clocks of
kafka-mirror are Python's.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import importlib.machinery
import inspect
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

DIE_AT = "SOAK_DIE_AT"
CLOCK_AHEAD_S = "SOAK_CLOCK_AHEAD_S"
DEAD = ".dead"  # the suffix of the file with the id of the process that died
MAP_EVERY_MS = 4_000  # instead of once a minute, so that nobody has to wait for it


class Point(NamedTuple):
    """Before or after the call of a function; where `apis` are given, only of one that asks such a thing of a broker."""

    module: str
    function: str
    is_after: bool = False
    apis: tuple[int, ...] = ()


_ASK = ("mirror.kafka.connection", "Connection.ask", False)
PRODUCE, OFFSET_COMMIT, END_TXN = 0, 8, 26
# In the order in which a window comes by them; the last four are not the window's.
POINTS = {
    "when a lease is taken": Point("mirror.replication.window", "FlowWindow._replicate"),
    "before a batch is sent": Point("mirror.kafka.target", "Target.send"),
    "while a batch is in flight": Point(*_ASK, (PRODUCE,)),
    "when a batch is acknowledged": Point("mirror.replication.positions", "PositionCommits.pending"),
    "while a commit is in flight": Point(*_ASK, (OFFSET_COMMIT, END_TXN)),
    "when positions are committed": Point("mirror.replication.positions", "PositionCommits.completed"),
    "when the offset map is written": Point("mirror.model.offset_map_tail", "Tail.moved"),
    "when a lease is given back": Point("mirror.replication.window", "FlowWindow.run", is_after=True),
    "when checkpoints are written": Point("mirror.checkpoints.flow", "write", is_after=True),
    "when Spark reports a window": Point("metrics.listener", "MirrorQueryListener.onQueryProgress"),
    "before a topic is created": Point("mirror.kafka.control_plane", "ControlPlane.create"),
    "when a topic is created": Point("mirror.kafka.control_plane", "ControlPlane.create", is_after=True),
}
_passed: dict[str, int] = {}  # by the content of the file: how often this process came there


def _passes(point: str) -> None:
    """Die here if it is said so, and it is time; what is on its way gets a moment to be under way."""
    file = Path(os.environ[DIE_AT])
    try:
        text = file.read_text()
    except FileNotFoundError:
        return
    said = json.loads(text)
    if said["point"] != point:
        return
    _passed[text] = _passed.get(text, 0) + 1
    if _passed[text] != said["passes"]:
        return
    with contextlib.suppress(FileNotFoundError):
        file.rename(file.with_suffix(".taken"))
        # Not into the other one, which somebody may just be reading.
        file.with_suffix(DEAD).write_text(str(os.getpid()))
        if POINTS[point].apis:
            asyncio.get_running_loop().call_later(said["moment_s"], _die)
        else:
            _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _hooked(function: Callable[..., Any], name: str, point: Point) -> Callable[..., Any]:
    def passes(arguments: Sequence[Any]) -> None:
        if not point.apis or arguments[1].api in point.apis:
            _passes(name)

    @functools.wraps(function)
    def before(*arguments: Any, **named: Any) -> Any:
        passes(arguments)
        return function(*arguments, **named)

    @functools.wraps(function)
    def after(*arguments: Any, **named: Any) -> Any:
        done = function(*arguments, **named)
        passes(arguments)
        return done

    @functools.wraps(function)
    async def after_all(*arguments: Any, **named: Any) -> Any:
        done = await function(*arguments, **named)
        passes(arguments)
        return done

    if not point.is_after:
        return before
    return after_all if inspect.iscoroutinefunction(function) else after


def _hook(module: ModuleType) -> None:
    for name, point in POINTS.items():
        if point.module == module.__name__:
            *path, last = point.function.split(".")
            owner = functools.reduce(getattr, path, module)
            setattr(owner, last, _hooked(getattr(owner, last), name, point))
    if hasattr(module, "MAP_EVERY_MS"):
        module.MAP_EVERY_MS = MAP_EVERY_MS


def hook_all() -> None:
    """Hook all modules of kill points now; for a process that has loaded them before."""
    for module in dict.fromkeys(point.module for point in POINTS.values()):
        _hook(importlib.import_module(module))


class _Finder(MetaPathFinder):
    """Lets modules be hooked as soon as they are loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, _: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not any(point.module == name for point in POINTS.values()):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        assert spec is not None
        assert spec.loader is not None
        load = spec.loader.exec_module

        def loaded(module: ModuleType) -> None:
            load(module)
            _hook(module)

        spec.loader.exec_module = loaded  # type: ignore[method-assign]
        return spec


def _set_clock_ahead(seconds: float) -> None:
    wall, wall_ns = time.time, time.time_ns
    time.time = lambda: wall() + seconds
    time.time_ns = lambda: wall_ns() + int(seconds * 1e9)


if ahead_s := float(os.environ.get(CLOCK_AHEAD_S, 0)):
    _set_clock_ahead(ahead_s)
if DIE_AT in os.environ:
    sys.meta_path.insert(0, _Finder())
