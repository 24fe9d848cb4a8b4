"""Read connectors from JSON, as Connect's REST API takes and gives them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mirror.config.imports.connectors import Connector, Connectors, role_of, settings_of, somebody_elses
from mirror.errors import SettingsError

CLASS = "connector.class"


def is_connector(document: object) -> bool:
    """Tell whether a document is a connector, with its name or as the bare map of its settings."""
    return isinstance(document, Mapping) and (
        CLASS in document or (isinstance(document.get("config"), Mapping) and CLASS in document["config"])
    )


def connector(document: Mapping[str, Any], where: str, state: str = "") -> Connectors:
    """Return a connector of either shape; one of another class is told of as such."""
    config = document if CLASS in document else document["config"]
    name = str(document.get("name") or config.get("name") or "")
    place = f"{where}: {name}" if name else where
    role = role_of(str(config[CLASS]))
    if role is None:
        return somebody_elses(name, str(config[CLASS]), where)
    paused = state if state in ("PAUSED", "STOPPED") else ""
    return Connectors(
        connectors=(Connector(name=name, role=role, settings=settings_of(config, place), where=place, state=paused),)
    )


def expanded(answer: object, where: str) -> Connectors:
    """Return what a Connect cluster answers to GET /connectors?expand=info&expand=status.

    Raises:
        SettingsError: it is another answer.
    """
    found = Connectors()
    for name, about in _named(answer, where):
        found += connector({"name": name, **about["info"]}, where, _state(about.get("status")))
    return found


def _state(status: object) -> str:
    about = status.get("connector") if isinstance(status, Mapping) else None
    return str(about.get("state")) if isinstance(about, Mapping) else ""


def _named(answer: object, where: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(answer, Mapping):
        raise SettingsError(f"{where}: no Kafka Connect since 2.3 answers like that. Check the address.")
    for name, about in answer.items():
        if not (isinstance(about, Mapping) and is_connector(about.get("info"))):
            raise SettingsError(f"{where}: {name} comes without its settings; expected a Kafka Connect since 2.3.")
        yield str(name), about
