"""Two clusters behind proxies and an appliance between them, with everything that a fault can hit."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from mirror.local.broker import HOST, Broker
from tests.fault_proxy import FaultProxy, proxied
from tests.integration.appliance import RunningAppliance
from tests.soak.hooks import sitecustomize

MODES = ("at least once", "exactly once")
_SETTINGS = """mirror.slots = 2
primary.consumer.request.timeout.ms = 10000
backup.producer.request.timeout.ms = 10000
emit.checkpoints.enabled = true
emit.checkpoints.interval.seconds = 2
groups = soak
"""
_HOOKS = str(Path(sitecustomize.__file__).parent)
_TRANSACTIONS = "backup.exactly.once.source.support = enabled\n"


@dataclass(slots=True)
class Stage:
    """`appliance` is the one that runs; `links` is, by side, what it reaches the clusters through.

    `topic` is the round's; checkpoints are written of `group`; `dies_at` is what the hooks look for.
    """

    mode: str
    folder: Path
    source: Broker
    target: Broker
    links: dict[str, FaultProxy]
    appliance: RunningAppliance = field(init=False)
    topic: str = ""
    group: str = "soak"
    _all: list[RunningAppliance] = field(default_factory=list)

    @property
    def dies_at(self) -> Path:
        """The file that names a kill point."""
        return self.folder / "dies-at"

    def another(self) -> RunningAppliance:
        """Return one more process of the flow, not started yet, with a state folder and an address of its own."""
        folder = self.folder / f"mirror-{len(self._all) + 1}"
        folder.mkdir()
        addresses = {side: f"{HOST}:{link.port}" for side, link in self.links.items()}
        one = RunningAppliance(
            folder, primary=addresses["source"], backup=addresses["target"], topics="soak-.*",
            extra=_SETTINGS + (_TRANSACTIONS if self.mode == MODES[1] else ""),
        )  # fmt: skip
        one.environment |= {
            "PYTHONPATH": os.pathsep.join([_HOOKS, one.environment["PYTHONPATH"]]),
            sitecustomize.DIE_AT: str(self.dies_at),
        }
        self._all.append(one)
        return one

    def close(self) -> None:
        """Stop every process that runs."""
        for one in self._all:
            one.close()


Fault: TypeAlias = Callable[[Stage, random.Random], None]  # over when it returns; what is chance in it, the dice decide


@contextlib.contextmanager
def staged(mode: str, folder: Path) -> Iterator[Stage]:
    """Start everything, in one of MODES; all that runs in the end is stopped."""
    with (
        proxied("source", folder / "source") as (source, source_link, _),
        proxied("target", folder / "target") as (target, target_link, _),
    ):
        stage = Stage(mode, folder, source, target, {"source": source_link, "target": target_link})
        stage.appliance = stage.another()
        try:
            stage.appliance.start()
            yield stage
        finally:
            stage.close()
