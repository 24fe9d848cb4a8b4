"""Bring the connectors of a flow together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mirror.config.imports.connectors import Connector, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorFlow:
    """The connectors of one flow, those that win first."""

    source: str
    target: str
    connectors: Sequence[Connector]

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def source_connector(self) -> Connector | None:
        """The one that mirrors records."""
        return self.of(Role.SOURCE)

    def of(self, role: Role) -> Connector | None:
        """Return the first connector of a role."""
        return next((each for each in self.connectors if each.role is role), None)


def flows_of(connectors: Iterable[Connector]) -> list[ConnectorFlow]:
    """Return the flows in the order in which they were found."""
    by_flow: dict[tuple[str, str], list[Connector]] = {}
    for connector in connectors:
        by_flow.setdefault(connector.flow, []).append(connector)
    order = list(Role)
    return [
        ConnectorFlow(source=source, target=target, connectors=sorted(those, key=lambda each: order.index(each.role)))
        for (source, target), those in by_flow.items()
    ]
