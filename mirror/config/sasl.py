"""Translate Java's SASL properties, which define how a client logs in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import urlsplit

from mirror.config.jaas import EXTENSION, JAAS, KERBEROS, MECHANISMS, MODULES, MSK, OAUTH, Jaas, jaas
from mirror.config.properties import is_provided, shown
from mirror.config.values import ClientError, broker_addresses, client_text

_MECHANISM = "sasl.mechanism"
_URL = "sasl.oauthbearer.token.endpoint.url"
_SERVICE = "sasl.kerberos.service.name"
_HANDLER = "sasl.login.callback.handler.class"
_CLIENT_HANDLER = "sasl.client.callback.handler.class"
_KAFKA = "org.apache.kafka.common.security"
# A handler is Java code. These only do what kafka-mirror does anyway: Kafka's own ones, also before 4.0, and Amazon's.
_KAFKAS = (
    f"{_KAFKA}.oauthbearer.OAuthBearerLoginCallbackHandler",
    f"{_KAFKA}.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
_AMAZONS = ("software.amazon.msk.auth.iam.IAMClientCallbackHandler",)


class Tokens(Protocol):
    """The source of OAuth's tokens (mirror.config.oauth)."""

    async def token(self) -> str:
        """Return the text of a valid token."""

    def extensions(self) -> dict[str, str]:
        """Return the SASL extensions to send with each token."""

    def for_librdkafka(self, _: str) -> tuple[str, float, str, dict[str, str]]:
        """Return token, expiry in epoch s, principal and extensions."""


@dataclass(frozen=True, slots=True)
class Kerberos:
    """The ticket of a client's login. If a field is empty, krb5.conf or the environment supplies its value."""

    service: str  # the first part of the brokers' principals, before the slash
    principal: str = ""
    keytab: str = ""  # path; without a keytab, a ticket cache that another program renews
    cache: str = ""  # path of the ticket cache

    def __str__(self) -> str:
        """The principal and its credentials."""
        means = f"the keytab {self.keytab}" if self.keytab else f"the ticket cache {self.cache}".rstrip()
        return f"{self.principal} by {means}" if self.principal else means


@dataclass(frozen=True, slots=True)
class Login:
    """A client's login: with a name and a password, with tokens, or with a ticket."""

    mechanism: str  # the mechanism's name in SASL
    username: str = ""
    password: str = field(default="", repr=False)
    tokens: Tokens | None = field(default=None, repr=False)
    kerberos: Kerberos | None = None


def login(java: Mapping[str, str]) -> Login:
    """Return the login of kafka-mirror's own client.

    Raises:
        ClientError: A property is not supported.
    """
    mechanism, found = _given(java)
    if mechanism == OAUTH:
        return Login(OAUTH, tokens=_tokens(java, found))
    if mechanism == MSK:
        return Login(OAUTH, tokens=_amazons(java, found))
    if mechanism == KERBEROS:
        return Login(KERBEROS, kerberos=_kerberos(java, found))
    return Login(mechanism, found.options["username"], found.options["password"])


def confluent_options(java: Mapping[str, str]) -> dict[str, Any]:
    """Return librdkafka's configuration for SASL; raises like `login`.

    With GSSAPI, librdkafka's packages fail (mirror.kafka.login_relay).
    """
    found = login(java)
    if found.tokens is not None:
        return {"sasl.mechanism": found.mechanism, "oauth_cb": found.tokens.for_librdkafka}
    if found.kerberos is not None:
        return {"sasl.mechanism": found.mechanism}
    return {"sasl.mechanism": found.mechanism, "sasl.username": found.username, "sasl.password": found.password}


def _given(java: Mapping[str, str]) -> tuple[str, Jaas]:
    """Return the mechanism (Java's default if unset) and its login module."""
    given = client_text(java, _MECHANISM)
    if not given and not client_text(java, JAAS):
        raise ClientError(_MECHANISM, f"is not set. Write one of {', '.join(MECHANISMS)}, and {JAAS}.")
    mechanism = (given or KERBEROS).upper()
    if mechanism not in MECHANISMS:
        found = shown(java, _MECHANISM, mechanism)
        raise ClientError(_MECHANISM, f"{found} is not supported. Write one of {', '.join(MECHANISMS)}.")
    for key, known in ((_HANDLER, _KAFKAS), (_CLIENT_HANDLER, _AMAZONS if mechanism == MSK else ())):
        handler = client_text(java, key)
        if handler is not None and handler not in known:
            raise ClientError(key, f"{shown(java, key, handler)} is not supported. Leave it out.")
    module = jaas(java)
    if mechanism not in MODULES[module.module].mechanisms:
        if is_provided(java, _MECHANISM) or is_provided(java, JAAS):
            raise ClientError(JAAS, "its module does not fit sasl.mechanism. Correct one of the two.")
        fits = next(name for name, one in MODULES.items() if mechanism in one.mechanisms)
        raise ClientError(JAAS, f"{module.module} does not fit sasl.mechanism {mechanism}. Use {fits}.")
    return mechanism, module


def _kerberos(java: Mapping[str, str], module: Jaas) -> Kerberos:
    _need("gssapi", "kerberos")
    service, of_module = client_text(java, _SERVICE), module.options.get("serviceName")
    if not service and not of_module:
        raise ClientError(_SERVICE, "is not set. Write the brokers' name before the slash: kafka for kafka/host@REALM.")
    if service and of_module and service != of_module:
        raise ClientError(_SERVICE, f"and serviceName of {JAAS} differ. Leave one of them out.")
    options, uses_keytab = module.options, module.is_on("useKeyTab")
    if uses_keytab and not (options.get("keyTab") and options.get("principal")):
        raise ClientError(
            JAAS,
            "has useKeyTab without keyTab or without principal. Set keyTab to the file and principal to its principal.",
        )
    if not uses_keytab and not module.is_on("useTicketCache"):
        raise ClientError(
            JAAS,
            "has neither useKeyTab=true nor useTicketCache=true. Set one: interactive passwords are not supported.",
        )
    return Kerberos(
        service or of_module or "",
        options.get("principal", ""),
        keytab=options["keyTab"] if uses_keytab else "",
        cache="" if uses_keytab else options.get("ticketCache", ""),
    )


def _amazons(java: Mapping[str, str], module: Jaas) -> Any:
    _need("aws_msk_iam_sasl_signer", "msk")
    from mirror.config import oauth

    profile, role = module.options.get("awsProfileName", ""), module.options.get("awsRoleArn", "")
    if profile and role:
        raise ClientError(JAAS, "has both awsProfileName and awsRoleArn. Leave one of them.")
    region = oauth.region_of(broker_addresses(client_text(java, "bootstrap.servers") or "")) or oauth.default_region()
    if not region:
        raise ClientError(
            _MECHANISM, "neither the brokers' names nor AWS_REGION contain an AWS region. Set AWS_REGION."
        )
    return oauth.aws_tokens(region, profile, role, module.options.get("awsRoleSessionName", ""))


def _need(module: str, extra: str) -> None:
    if find_spec(module) is None:
        advice = f"Install it in the project's folder: pip install '.[{extra}]'."
        raise ClientError(_MECHANISM, f"needs the package {module}, which is not installed. {advice}")


def _tokens(java: Mapping[str, str], module: Jaas) -> Any:
    from mirror.config.oauth import tokens  # imports an HTTP client, which most commands do not need

    extensions = {key: value for key, value in module.options.items() if key.startswith(EXTENSION)}
    if not all(value.isascii() and value.isprintable() for value in extensions.values()):
        raise ClientError(JAAS, "has an extension whose value is not printable ASCII. Correct it.")
    return tokens(
        _token_url(java),
        module.options["clientId"],
        module.options["clientSecret"],
        module.options.get("scope", ""),
        tuple((key.removeprefix(EXTENSION), value) for key, value in extensions.items()),
    )


def _token_url(java: Mapping[str, str]) -> str:
    """Return the token endpoint, over TLS or on this host. No error quotes the address."""
    url = client_text(java, _URL)
    advice = "Write https://..., or http://... of this host."
    if not url:
        raise ClientError(_URL, f"is not set. {advice}")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ClientError(_URL, f"is not an address. {advice}") from None
    if parts.scheme not in ("https", "http"):
        found = "its kind" if is_provided(java, _URL) else f'"{parts.scheme}:"'
        raise ClientError(_URL, f"{found} is not supported. {advice}")
    if not host or parts.username is not None or parts.fragment or not url.isprintable() or " " in url:
        raise ClientError(_URL, f"is not an address of only a host and a path. {advice}")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ClientError(_URL, f"would send the client's secret in the clear. {advice}")
    return url


def _is_loopback(host: str) -> bool:
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
