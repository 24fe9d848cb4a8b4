"""Read a flow's ledger of gaps, and add the gaps that commands cause."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field

from mirror.config.clients import client_options
from mirror.config.settings import Flow
from mirror.errors import MirrorError
from mirror.kafka.cluster import Cluster
from mirror.kafka.internal_topics import answered, read_topic
from mirror.model.flow_plan import GAPS_TOPIC
from mirror.model.gaps import Effect, Gap

log = logging.getLogger("mirror")


@dataclass(slots=True)
class GapLedger:
    """The ledger of one flow; `refresh` reads new records. Other kinds of records are skipped."""

    flow: Flow
    _found: dict[bytes, Gap] = field(default_factory=dict)
    _next: int = 0  # offset to read from

    def refresh(self) -> list[Gap]:
        """Return all gaps, the oldest first; raises ClusterUnavailable."""
        what = f"the ledger of gaps of {self.flow.name} cannot be read"
        answered(self._read(), cluster=self.flow.target.alias, what=what)
        return sorted(self._found.values(), key=lambda gap: (gap.at_ms, gap.topic, gap.partition))

    async def _read(self) -> None:
        topic = GAPS_TOPIC.format(source=self.flow.source.alias)
        async for offset, record in read_topic(client_options(self.flow.target_admin), topic, self._next):
            if offset < self._next:  # the topic was deleted and created again
                self._found.clear()
            self._next = offset + 1
            if (gap := Gap.decode(record.value)) is not None:
                self._found[gap.key] = gap


def by_effect(gaps: Iterable[Gap]) -> dict[str, tuple[int, int]]:
    """Return the number of gaps, and of their known offsets, by effect."""
    found = {effect.value: (0, 0) for effect in Effect}
    for gap in gaps:
        entries, offsets = found[gap.effect.value]
        found[gap.effect.value] = entries + 1, offsets + (gap.offsets or 0)
    return found


def note(flow: Flow, gaps: Iterable[Gap]) -> None:
    """Write gaps to a flow's ledger. A failure is only logged, because the caller reports the gaps too."""
    found = [gap.encode() for gap in gaps]
    if not found:
        return
    try:
        with closing(Cluster(flow.target.alias, flow.producer)) as target:
            target.append(GAPS_TOPIC.format(source=flow.source.alias), found)
    except MirrorError as error:
        log.warning("%s: the ledger of gaps cannot be written (%s)", flow.name, error)
