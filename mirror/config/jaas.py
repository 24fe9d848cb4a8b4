"""Parse sasl.jaas.config: a login module and its options. Unknown modules are refused by name.

A login module is Java code, which kafka-mirror does not run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror.config.properties import is_provided
from mirror.config.values import ClientError, client_text

JAAS = "sasl.jaas.config"
OAUTH, KERBEROS, MSK = "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM"
EXTENSION = "extension_"
# From Kafka 4.1 (KIP-1139): by option of the login module, the setting that replaces and overrides the option.
OAUTH_KEYS = {
    "clientId": "sasl.oauthbearer.client.credentials.client.id",
    "clientSecret": "sasl.oauthbearer.client.credentials.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_KAFKA = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class Module:
    """A supported login module, and its supported options."""

    mechanisms: tuple[str, ...] = ()
    required: tuple[str, ...] = ("username", "password")
    optional: tuple[str, ...] = ()
    example: str = ""  # of its options, if the required ones are no example

    def knows(self, option: str) -> bool:
        """Return whether an option may be given; OAuth allows SASL extensions too."""
        is_extension = re.fullmatch(EXTENSION + "(?!auth$)[A-Za-z]+", option) is not None  # RFC 7628, 3.1
        return option in (*self.required, *self.optional) or (is_extension and OAUTH in self.mechanisms)


MODULES = {
    f"{_KAFKA}.plain.PlainLoginModule": Module(("PLAIN",)),
    f"{_KAFKA}.scram.ScramLoginModule": Module(("SCRAM-SHA-256", "SCRAM-SHA-512")),
    f"{_KAFKA}.oauthbearer.OAuthBearerLoginModule": Module((OAUTH,), ("clientId", "clientSecret"), ("scope",)),
    "com.sun.security.auth.module.Krb5LoginModule": Module(
        (KERBEROS,),
        (),
        # The last four do not change the principal: they concern prompts, and keys that servers store.
        (
            *("useKeyTab", "keyTab", "principal", "useTicketCache", "ticketCache", "serviceName"),
            *("storeKey", "doNotPrompt", "refreshKrb5Config", "debug"),
        ),
        'useKeyTab=true keyTab="..." principal="..."',
    ),
    "software.amazon.msk.auth.iam.IAMLoginModule": Module(
        (MSK,), (), ("awsProfileName", "awsRoleArn", "awsRoleSessionName")
    ),
}
MECHANISMS = tuple(name for module in MODULES.values() for name in module.mechanisms)


@dataclass(frozen=True, slots=True)
class Jaas:
    """A login module by its name, and its options."""

    module: str
    options: Mapping[str, str] = field(repr=False)

    def is_on(self, option: str) -> bool:
        """Return whether an option is true, by Java's rule."""
        return self.options.get(option, "").lower() == "true"


def jaas(java: Mapping[str, str]) -> Jaas:
    """Parse "Module required name=value ...;". Errors never quote its text, except unknown names.

    Raises:
        ClientError: The text is not a login module, or names an unknown one.
    """
    given, is_hidden = client_text(java, JAAS) or "", is_provided(java, JAAS)
    found = re.match(r"[\w.$]*LoginModule(?=\s|;|$)", given)
    if found is None:  # the text may be a password
        raise ClientError(JAAS, f"names no login module. {_example(Module())}")
    if found[0] not in MODULES:
        name = "its login module" if is_hidden else found[0]
        raise ClientError(JAAS, f"{name} is not supported. Use one of {', '.join(MODULES)}.")
    module = MODULES[found[0]]
    options = _options(given[found.end() :], module)
    options |= {
        name: value
        for name, key in OAUTH_KEYS.items()
        if OAUTH in module.mechanisms and (value := client_text(java, key))
    }
    if missing := [name for name in module.required if not options.get(name)]:
        raise ClientError(JAAS, f"has no {' and no '.join(missing)}. {_example(module)}")
    if extra := sorted(name for name in options if not module.knows(name)):
        name = "one of its options" if is_hidden else f"option {extra[0]}"
        left = module.required or module.optional
        raise ClientError(JAAS, f"{name} is not supported. Leave only {' and '.join(left)}.")
    return Jaas(found[0], options)


def _options(rest: str, module: Module) -> dict[str, str]:
    body = re.fullmatch(r"\s+(?:required|requisite|sufficient|optional)\b(.*);\s*", rest, re.I | re.S)
    option = re.compile(r"""\s*([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';=]+))\s*""", re.S)
    options: dict[str, str] = {}
    at, rest = 0, body[1].strip() if body else ""
    while body and (match := option.match(rest, at)):
        quoted = match[2] if match[2] is not None else match[3]
        options[match[1]] = match[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.S)
        at = match.end()
    if body is None or at != len(rest):
        raise ClientError(JAAS, f"is not one login module with its options. {_example(module)}")
    return options


def _example(module: Module) -> str:
    options = module.example or " ".join(f'{name}="..."' for name in module.required)
    return f"Write: <module> required {options};"
