"""Encode requests and decode responses: kio has the message classes, this module the frames.

A `Request` has no version yet: it is built in the highest version that both this client and the broker support.
Layout of frame and headers: https://kafka.apache.org/protocol, "Protocol Primitives" and "Requests Headers".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from io import BytesIO
from types import ModuleType
from typing import Any, TypeVar

from kio.index import load_payload_module
from kio.schema.response_header.v1.header import ResponseHeader
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.constants import EntityType

from mirror.kafka.errors import MalformedError, UnsupportedError
from mirror.kafka.protocol import ApiKey
from mirror.model.codecs import Bytes

Message = TypeVar("Message")

_HEAD = struct.Struct(">ihhih")  # size, API key, version, correlation id, length of the client id
_UNSIZED = struct.Struct(">hhih")
_SIZE_BYTES = _ID_BYTES = 4
_NO_TAGS = b"\0"
_UNSUPPORTED = b"\0\x23"  # UNSUPPORTED_VERSION
_read_header = entity_reader(ResponseHeader)


@dataclass(frozen=True, slots=True)
class Request:
    """A request whose version is still open.

    Attributes:
        api: API key of the request.
        lowest: First version that has the required fields.
        highest: Last version that this client supports.
        build: Makes the message, given kio's module of a version (see `make`).
        waits_s: Time for which the request allows the broker to delay the response.
        packs: Encodes the message itself in some versions (mirror.kafka.packing); returns None in the others.
    """

    api: ApiKey
    lowest: int
    highest: int
    build: Callable[[ModuleType, int], Any]
    waits_s: float = 0.0
    packs: Callable[[int], list[Bytes] | None] | None = None


def make(kind: type[Message], /, **values: Any) -> Message:
    """Make a message. Values without a field in this version are dropped."""
    known: frozenset[str] = _field_names(kind)  # type: ignore[arg-type]  # a class is hashable
    return kind(**{name: value for name, value in values.items() if name in known})


@cache
def _field_names(kind: Any) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind))


@cache
def _requests(api: int, version: int) -> ModuleType:
    return load_payload_module(api, version, EntityType.request)


@cache
def _response_reader(api: int, version: int) -> tuple[Any, bool]:
    """Return the parser of a response, and whether its header has tagged fields."""
    kind = _message_in(answers(api, version), EntityType.response)
    return entity_reader(kind), _has_tags(api, kind)


def _message_in(module: ModuleType, which: EntityType) -> Any:
    return next(
        kind for kind in vars(module).values() if isinstance(kind, type) and getattr(kind, "__type__", None) is which
    )


def _has_tags(api: int, kind: Any) -> bool:
    return bool(kind.__flexible__) and api != ApiKey.API_VERSIONS  # every client must be able to read its response


@cache
def answers(api: int, version: int) -> ModuleType:
    """Return kio's module of a response in one version."""
    return load_payload_module(api, version, EntityType.response)


@cache
def _request_reader(api: int, version: int) -> tuple[Any, bool]:
    """Return the parser of a request, and whether its header has tagged fields."""
    kind = _message_in(_requests(api, version), EntityType.request)
    return entity_reader(kind), bool(kind.__flexible__)


@cache
def _writer(kind: Any) -> Any:
    return entity_writer(kind)


def negotiate_version(request: Request, api_versions: Mapping[int, tuple[int, int]]) -> int:
    """Return the version to use.

    Args:
        request: The request to send.
        api_versions: The broker's lowest and highest version by API key.

    Raises:
        UnsupportedError: no version is supported by both sides.
    """
    lowest, highest = api_versions.get(request.api, (0, -1))
    version = min(highest, request.highest)
    if version < max(lowest, request.lowest):
        raise UnsupportedError(
            f"the broker speaks versions {lowest} to {highest} of API {request.api}, expected {request.lowest} to "
            f"{request.highest}"
        )
    return version


def encoded(request: Request, version: int, correlation: int, client_id: bytes) -> list[Bytes]:
    """Return a request's frame, in pieces."""
    packed = request.packs(version) if request.packs is not None else None
    if packed is not None:
        return [_head(request, version, correlation, client_id, _NO_TAGS, sum(map(len, packed))), *packed]
    message = request.build(_requests(request.api, version), version)
    body = BytesIO()
    _writer(type(message))(body, message)  # type: ignore[arg-type]
    payload = body.getbuffer()
    tags = _NO_TAGS if message.__flexible__ else b""
    return [_head(request, version, correlation, client_id, tags, len(payload)) + payload]


def _head(request: Request, version: int, correlation: int, client_id: bytes, tags: bytes, size: int) -> bytes:
    size += _HEAD.size - _SIZE_BYTES + len(client_id) + len(tags)
    return _HEAD.pack(size, request.api, version, correlation, len(client_id)) + client_id + tags


def decoded(api: int, version: int, frame: memoryview | bytes) -> Any:
    """Return a response.

    Args:
        api: The request's API key.
        version: The request's version.
        frame: The response, starting with its correlation id.

    Raises:
        MalformedError: the response cannot be decoded.
    """
    if api == ApiKey.API_VERSIONS and frame[_ID_BYTES : _ID_BYTES + 2] == _UNSUPPORTED:
        version = 0  # brokers before 2.4 respond in version 0, which every client can read
    read, has_tags = _response_reader(api, version)
    try:
        at = _read_header(frame, 0)[1] if has_tags else _ID_BYTES
        return read(frame, at)[0]
    except (SerialError, ValueError, IndexError) as error:
        raise MalformedError(f"a response to API {api} version {version} cannot be read: {error!r}") from error


def answered(api: int, correlation: int, message: Any) -> bytes:
    """Return the frame of a response without its size field, as a broker sends it."""
    out = BytesIO()
    _writer(type(message))(out, message)  # type: ignore[arg-type]
    tags = _NO_TAGS if _has_tags(api, message) else b""
    return correlation.to_bytes(_ID_BYTES, signed=True) + tags + out.getvalue()


def request_of(frame: bytes) -> Any:
    """Decode a request as a broker does; the frame has no size field.

    Raises:
        MalformedError: the frame is not a request.
    """
    api, version, _, length = _UNSIZED.unpack_from(frame)
    read, has_tags = _request_reader(api, version)
    try:
        return read(frame, _UNSIZED.size + max(0, length) + (len(_NO_TAGS) if has_tags else 0))[0]
    except (SerialError, ValueError, IndexError) as error:
        raise MalformedError(f"a request of API {api} version {version} cannot be read: {error!r}") from error
