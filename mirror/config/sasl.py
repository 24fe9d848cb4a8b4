"""Translate Java's SASL properties: the mechanism, and what sasl.jaas.config says of the client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import urlsplit

from mirror.config.client_values import ClientError, text
from mirror.config.properties import is_provided, shown

_HANDLER = "sasl.login.callback.handler.class"
_URL = "sasl.oauthbearer.token.endpoint.url"
# Of Kafka 4.1 (KIP-1139), by the option of the login module that each replaces, and beats.
_OAUTH_KEYS = {
    "clientId": "sasl.oauthbearer.client.credentials.client.id",
    "clientSecret": "sasl.oauthbearer.client.credentials.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
KEYS = frozenset({"sasl.mechanism", "sasl.jaas.config", _HANDLER, _URL, *_OAUTH_KEYS.values()})
_JAAS = "sasl.jaas.config"
_KAFKA = "org.apache.kafka.common.security"
_HANDLERS = (  # Kafka's own, where it is and where it was before 4.0
    f"{_KAFKA}.oauthbearer.OAuthBearerLoginCallbackHandler",
    f"{_KAFKA}.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
_OAUTH = "OAUTHBEARER"
_EXTENSION = "extension_"


@dataclass(frozen=True, slots=True)
class _Module:
    """A login module that is accepted. Others are refused by name: a module is code."""

    mechanisms: tuple[str, ...]
    required: tuple[str, str] = ("username", "password")
    optional: tuple[str, ...] = ()

    def knows(self, option: str) -> bool:
        """Tell whether an option may be given; those of OAuth may be extensions of one's own."""
        is_extension = re.fullmatch(_EXTENSION + "(?!auth$)[A-Za-z]+", option) is not None  # RFC 7628, 3.1
        return option in (*self.required, *self.optional) or (is_extension and _OAUTH in self.mechanisms)


_MODULES = {
    f"{_KAFKA}.plain.PlainLoginModule": _Module(("PLAIN",)),
    f"{_KAFKA}.scram.ScramLoginModule": _Module(("SCRAM-SHA-256", "SCRAM-SHA-512")),
    f"{_KAFKA}.oauthbearer.OAuthBearerLoginModule": _Module((_OAUTH,), ("clientId", "clientSecret"), ("scope",)),
}


class Tokens(Protocol):
    """Where OAuth's tokens come from (mirror.config.oauth)."""

    async def token(self) -> str:
        """Return a token that holds."""

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions that go with each token."""


@dataclass(frozen=True, slots=True)
class Login:
    """How a client logs in: with a name and a password, or with tokens."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    tokens: Tokens | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class _Login:
    mechanism: str
    options: Mapping[str, str] = field(repr=False)


def login(java: Mapping[str, str]) -> Login:
    """Return how our own client logs in.

    Raises:
        ClientError: A property cannot be honoured.
    """
    found = _login(java)
    if found.mechanism == _OAUTH:
        return Login(_OAUTH, tokens=_tokens(java, found))
    return Login(found.mechanism, found.options["username"], found.options["password"])


def confluent_options(java: Mapping[str, str]) -> dict[str, Any]:
    """Return librdkafka's configuration for SASL; same errors."""
    found = _login(java)
    if found.mechanism == _OAUTH:
        return {"sasl.mechanism": _OAUTH, "oauth_cb": _tokens(java, found).for_librdkafka}
    return {
        "sasl.mechanism": found.mechanism,
        "sasl.username": found.options["username"],
        "sasl.password": found.options["password"],
    }


def _tokens(java: Mapping[str, str], login: _Login) -> Any:
    from mirror.config.oauth import tokens  # loads an HTTP client, which most commands do not need

    extensions = {key: value for key, value in login.options.items() if key.startswith(_EXTENSION)}
    if not all(value.isascii() and value.isprintable() for value in extensions.values()):
        raise ClientError(_JAAS, "has an extension whose value is not printable ASCII. Correct it.")
    return tokens(
        _token_url(java),
        login.options["clientId"],
        login.options["clientSecret"],
        login.options.get("scope", ""),
        tuple((key.removeprefix(_EXTENSION), value) for key, value in extensions.items()),
    )


def _token_url(java: Mapping[str, str]) -> str:
    """Return where tokens are to be had: over TLS, or on this very host. The address is quoted in no error."""
    url = text(java, _URL)
    advice = "Write https://..., or http://... of this host."
    if not url:
        raise ClientError(_URL, f"is not set. {advice}")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ClientError(_URL, f"is no address. {advice}") from None
    if parts.scheme not in ("https", "http"):
        found = "its kind" if is_provided(java, _URL) else f'"{parts.scheme}:"'
        raise ClientError(_URL, f"{found} is not supported. {advice}")
    if not host or parts.username is not None or parts.fragment or not url.isprintable() or " " in url:
        raise ClientError(_URL, f"is no address of a host and a path alone. {advice}")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ClientError(_URL, f"would send the client's secret in the clear. {advice}")
    return url


def _is_loopback(host: str) -> bool:
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _login(java: Mapping[str, str]) -> _Login:
    """Return mechanism and credentials. Java's default mechanism is GSSAPI, which is not supported."""
    key = "sasl.mechanism"
    mechanism = (text(java, key) or "GSSAPI").upper()
    supported = [name for module in _MODULES.values() for name in module.mechanisms]
    if mechanism not in supported:
        found = shown(java, key, mechanism)
        raise ClientError(key, f"{found} is not supported. Write one of {', '.join(supported)}.")
    handler = text(java, _HANDLER)
    if handler is not None and handler not in _HANDLERS:
        raise ClientError(_HANDLER, f"{shown(java, _HANDLER, handler)} is not supported. Leave it out.")
    name, options = _jaas(java)
    if mechanism not in _MODULES[name].mechanisms:
        if is_provided(java, key) or is_provided(java, _JAAS):
            raise ClientError(_JAAS, "its module does not fit sasl.mechanism. Correct one of the two.")
        fits = next(name for name, module in _MODULES.items() if mechanism in module.mechanisms)
        raise ClientError(_JAAS, f"{name} does not fit sasl.mechanism {mechanism}. Use {fits}.")
    return _Login(mechanism, options)


def _jaas(java: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Parse "Module required name=value ...;". Its text is never quoted in an error, but for names it may not hold."""
    jaas, is_hidden = text(java, _JAAS) or "", is_provided(java, _JAAS)
    found = re.match(r"[\w.$]*LoginModule(?=\s|;|$)", jaas)
    if found is None:  # what stands there instead may be a password
        raise ClientError(_JAAS, f"names no login module. {_example(_Module(()))}")
    if found[0] not in _MODULES:
        name = "its login module" if is_hidden else found[0]
        raise ClientError(_JAAS, f"{name} is not supported. Use one of {', '.join(_MODULES)}.")
    module = _MODULES[found[0]]
    body = re.fullmatch(r"\s+(?:required|requisite|sufficient|optional)\b(.*);\s*", jaas[found.end() :], re.I | re.S)
    option = re.compile(r"""\s*([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';=]+))\s*""", re.S)
    options: dict[str, str] = {}
    at, rest = 0, body[1].strip() if body else ""
    while body and (match := option.match(rest, at)):
        quoted = match[2] if match[2] is not None else match[3]
        options[match[1]] = match[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.S)
        at = match.end()
    if body is None or at != len(rest):
        raise ClientError(_JAAS, f"is not one login module with its options. {_example(module)}")
    options |= {
        name: value for name, key in _OAUTH_KEYS.items() if _OAUTH in module.mechanisms and (value := text(java, key))
    }
    if missing := [name for name in module.required if not options.get(name)]:
        raise ClientError(_JAAS, f"has no {' and no '.join(missing)}. {_example(module)}")
    if extra := sorted(name for name in options if not module.knows(name)):
        name = "one of its options" if is_hidden else f"option {extra[0]}"
        raise ClientError(_JAAS, f"{name} is not supported. Leave only {' and '.join(module.required)}.")
    return found[0], options


def _example(module: _Module) -> str:
    options = " ".join(f'{name}="..."' for name in module.required)
    return f"Write: <module> required {options};"
