"""Two clusters behind proxies and an appliance between them, with everything that a fault can hit."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from mirror.embedded.broker import Broker
from mirror.embedded.ports import HOST
from tests.fault_proxy import FaultProxy, proxied
from tests.integration.appliance import RunningAppliance
from tests.soak.hooks import sitecustomize
from tests.soak.trio import REPLICAS, Trio, trio

MODES = ("at least once", "exactly once", "identical offsets")
SIDES = ("source", "target")
_SETTINGS = """mirror.slots = 2
primary.consumer.request.timeout.ms = 10000
backup.producer.request.timeout.ms = 10000
emit.checkpoints.enabled = true
emit.checkpoints.interval.seconds = 2
groups = soak
"""
_HOOKS = str(Path(sitecustomize.__file__).parent)
_REPLICATED = "".join(
    f"{topic}replication.factor = {REPLICAS}\n"
    for topic in ("", "checkpoints.topic.", "offset-syncs.topic.", "heartbeats.topic.")
)
ONCE = "backup.exactly.once.source.support = enabled\n"
IDENTICAL = "mirror.offsets = identical\nprimary.consumer.isolation.level = read_committed\n"
_OF_MODE = dict(zip(MODES, ("", ONCE, IDENTICAL), strict=True))


@dataclass(slots=True)
class Stage:
    """`appliance` is the one that runs; `links` is, by side, what it reaches the clusters through.

    `links` is empty where each cluster has three brokers, which have `replicas` of everything. `topic` is the round's;
    checkpoints are written of `group`; `dies_at` is what the hooks look for.
    """

    mode: str
    folder: Path
    source: Broker | Trio
    target: Broker | Trio
    links: dict[str, FaultProxy]
    appliance: RunningAppliance = field(init=False)
    replicas: int = 1
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
        addresses = addresses or {"source": self.source.bootstrap, "target": self.target.bootstrap}
        one = RunningAppliance(
            folder,
            primary=addresses["source"],
            backup=addresses["target"],
            topics="soak-.*",
            extra=_SETTINGS + _OF_MODE[self.mode] + (_REPLICATED if self.replicas > 1 else ""),
        )
        one.environment |= {
            "PYTHONPATH": os.pathsep.join([_HOOKS, one.environment["PYTHONPATH"]]),
            sitecustomize.DIE_AT: str(self.dies_at),
        }
        self._all.append(one)
        return one

    def logs(self) -> list[Path]:
        """Return the logs of all processes of the flow that there have been."""
        return [one.log for one in self._all if one.log.exists()]

    def close(self) -> None:
        """Stop every process that runs."""
        for one in self._all:
            one.close()


Fault: TypeAlias = Callable[[Stage, random.Random], None]  # over when it returns; what is chance in it, the dice decide


@contextlib.contextmanager
def staged(mode: str, folder: Path, *, has_trios: bool = False) -> Iterator[Stage]:
    """Start everything, in one of MODES; all that runs in the end is stopped.

    Args:
        mode: One of MODES.
        folder: For all data and logs.
        has_trios: Each cluster has three brokers and no proxy, instead of one behind a proxy.
    """
    with contextlib.ExitStack() as stack:
        if has_trios:
            clusters = [stack.enter_context(trio(side, folder / side)) for side in SIDES]
            stage = Stage(mode, folder, *clusters, {}, replicas=REPLICAS)
        else:
            found = [stack.enter_context(proxied(side, folder / side)) for side in SIDES]
            (source, source_link, _), (target, target_link, _) = found
            stage = Stage(mode, folder, source, target, {"source": source_link, "target": target_link})
        stage.appliance = stage.another()
        try:
            stage.appliance.start()
            yield stage
        finally:
            stage.close()
