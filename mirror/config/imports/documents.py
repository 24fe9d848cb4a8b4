"""Read a file's text as connectors: YAML or JSON, one document or many. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from mirror.config.imports.connector_json import connector, expanded, is_connector
from mirror.config.imports.connectors import Connectors
from mirror.config.imports.items import Item
from mirror.config.imports.strimzi import is_resource, read_resource
from mirror.errors import SettingsError

_EXPECTED = (
    "expected a KafkaMirrorMaker2 or KafkaConnector of Strimzi, or a connector's JSON with its connector.class. "
    "Name another file"
)


def read_documents(text: str, where: str) -> Connectors:
    """Return the connectors that a text holds.

    Args:
        text: YAML or JSON: Strimzi's resources, connectors with or without their names, lists of them, or what Connect
            answers to GET /connectors?expand=info.
        where: What messages call it.

    Raises:
        SettingsError: it is neither YAML nor JSON, or holds no connector.
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
    """Return whether a document is a resource of Kubernetes, of any kind."""
    return isinstance(document, Mapping) and "apiVersion" in document and "kind" in document


def _left_out(document: Mapping[str, Any], where: str) -> Item:
    """Return a resource next to the mirror's, such as a Kafka or a KafkaUser, as one that is left out."""
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
    """Yield the documents of a list, or of Kubernetes' kind List."""
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
