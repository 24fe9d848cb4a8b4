"""Read connectors from YAML or JSON: a file, or a response of Connect's REST API. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from mirror.config.imports.connectors import Connector, Connectors, Item, role_of, settings_of, somebody_elses
from mirror.config.imports.strimzi import is_resource, read_resource
from mirror.errors import SettingsError

CLASS = "connector.class"
_EXPECTED = (
    "expected a KafkaMirrorMaker2 or KafkaConnector of Strimzi, or a connector's JSON with its connector.class. "
    "Name another file"
)


def is_connector(document: object) -> bool:
    """Return whether a document is a connector: one with a name, or a bare map of settings."""
    return isinstance(document, Mapping) and (
        CLASS in document or (isinstance(document.get("config"), Mapping) and CLASS in document["config"])
    )


def connector(document: Mapping[str, Any], where: str, state: str = "") -> Connectors:
    """Return a connector of either shape; list one of another class as left out."""
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
    """Return the connectors in Connect's response to GET /connectors?expand=info&expand=status.

    Raises:
        SettingsError: the response has another format.
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
        raise SettingsError(f"{where}: no Kafka Connect since 2.3 responds like that. Check the address.")
    for name, about in answer.items():
        if not (isinstance(about, Mapping) and is_connector(about.get("info"))):
            raise SettingsError(f"{where}: {name} comes without its settings; expected a Kafka Connect since 2.3.")
        yield str(name), about


def read_documents(text: str, where: str) -> Connectors:
    """Return the connectors in a text.

    Args:
        text: YAML or JSON: Strimzi's resources, connectors with or without their names, lists of them, or Connect's
            response to GET /connectors?expand=info.
        where: Name of the text in messages.

    Raises:
        SettingsError: the text is neither YAML nor JSON, or has no connector.
    """
    found = Connectors()
    others = 0
    for document in _documents(text, where):
        for each in _flat(document):
            if _is_of_kubernetes(each) and not is_resource(each):
                others += 1
                found += Connectors(others=(_left_out(each, where),))
            else:
                found += _one(each, where)
    if not found.connectors and len(found.others) == others:
        kinds = f" ({', '.join(item.found for item in found.others)})" if others else ""
        raise SettingsError(f"{where}: holds no connector{kinds}; {_EXPECTED}.")
    return found


def _is_of_kubernetes(document: object) -> bool:
    """Return whether a document is a Kubernetes resource of any kind."""
    return isinstance(document, Mapping) and "apiVersion" in document and "kind" in document


def _left_out(document: Mapping[str, Any], where: str) -> Item:
    """Return a resource of another kind, such as Kafka or KafkaUser, as left out."""
    metadata = document.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, Mapping) else ""
    return Item(found=f"{document['kind']} {name}".strip(), where=where).left_out("not a resource of MirrorMaker 2")


def _documents(text: str, where: str) -> Iterator[object]:
    try:
        yield json.loads(text)
    except (ValueError, RecursionError):
        try:
            yield from list(yaml.safe_load_all(text))
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            line = f":{mark.line + 1}" if mark is not None else ""
            raise SettingsError(f"{where}{line}: is neither YAML nor JSON; {_EXPECTED}.") from None


def _flat(document: object) -> Iterator[Any]:
    """Yield the documents of a list, or of a Kubernetes List."""
    if isinstance(document, list):
        for each in document:
            yield from _flat(each)
    elif isinstance(document, Mapping) and isinstance(document.get("items"), list):
        yield from _flat(document["items"])
    elif document is not None:
        yield document


def _one(document: Any, where: str) -> Connectors:
    if is_resource(document):
        return read_resource(document, where)
    if is_connector(document):
        return connector(document, where)
    if (
        isinstance(document, Mapping)
        and document
        and all(isinstance(about, Mapping) and "info" in about for about in document.values())
    ):
        return expanded(document, where)
    kind = f"a {document['kind']}" if isinstance(document, Mapping) and "kind" in document else "something else"
    raise SettingsError(f"{where}: is {kind}; {_EXPECTED}.")
