"""Say what no source of an import tells, and a person may know. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mirror.config.imports.connectors import Connectors, Role
from mirror.config.imports.flows import ConnectorFlow
from mirror.config.imports.items import Item
from mirror.config.keys import EXACTLY_ONCE_KEY, OFFSETS_TOPIC_KEY, TAKEOVER_KEY


def notes_of(flows: Sequence[ConnectorFlow], found: Connectors, items: Sequence[Item]) -> Iterator[str]:
    """Yield what no source tells and a person may know."""
    lines: Mapping[str, Item] = {item.key: item for item in items if item.is_line}
    for flow in flows:
        if any(each.role is Role.SOURCE and not each.name for each in flow.connectors):
            yield (
                f"The name of the MirrorSourceConnector of {flow} is not told. Write it as {flow}.{TAKEOVER_KEY}, or the flow "
                "does not begin where the connector stopped."
            )
    unseen = [target for target in dict.fromkeys(flow.target for flow in flows) if target not in found.workers]
    for target in unseen:
        yield (
            f"Settings of Connect's worker are not seen here. Its producer.* are {target}.producer.* here; records go to "
            f"{target}.bootstrap.servers, where Connect wrote them to its worker's cluster; bytes stay as they are."
        )
        if f"{target}.{EXACTLY_ONCE_KEY}" not in lines:
            yield f"If the worker has {EXACTLY_ONCE_KEY} = enabled, write {target}.{EXACTLY_ONCE_KEY} = enabled."
        if f"{target}.{OFFSETS_TOPIC_KEY}" not in lines:
            yield (
                f"Where Connect keeps positions is a setting of its worker. Give it as --offsets-topic, or write "
                f"{target}.{OFFSETS_TOPIC_KEY}, or the flow does not begin where the connector stopped."
            )
    if len(unseen) > 1:
        yield "Connect keeps positions on its worker's cluster: flows into another one do not find them there."
