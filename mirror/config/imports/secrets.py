"""Write references to secrets for Kafka's config providers, and the providers' declarations. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from mirror.config.imports.connectors import Item, Setting
from mirror.config.providers import PROVIDERS, is_provider_key

FOLDER = "/etc/kafka-mirror/secrets"  # as in the mounts of docs/kubernetes
PLACEHOLDER = re.compile(r"\$\{([^}:]+):(?:[^}]*?)\}")
_KUBERNETES = re.compile(r"\$\{(?:strimzisecrets|secrets):(?:[^/:}]+/)?([^:}]+):([^}]+)\}")
_JAVA_PACKAGE = "org.apache.kafka.common.config.provider."
# The usual names of Kafka's providers in workers; Strimzi declares those that start with its name.
USUAL = {
    **dict.fromkeys(("file", "strimzifile"), f"{_JAVA_PACKAGE}FileConfigProvider"),
    **dict.fromkeys(("directory", "dir", "strimzidir"), f"{_JAVA_PACKAGE}DirectoryConfigProvider"),
    **dict.fromkeys(("env", "strimzienv"), f"{_JAVA_PACKAGE}EnvVarConfigProvider"),
}


def reference(secret: str, key: str) -> str:
    """Return the reference to a key of a Kubernetes Secret, mounted as a folder."""
    return f"${{directory:{FOLDER}/{secret}:{key}}}"


def mount(secret: str, key: str) -> str:
    """Return the manual work that a `reference` requires."""
    return f"mount the Secret {secret} at {FOLDER}/{secret}; its key {key} is read"


def without_kubernetes(setting: Setting) -> Setting:
    """Return the setting; replace references to Kubernetes' API by references to mounted folders."""
    found = list(_KUBERNETES.finditer(setting.value))
    if not found:
        return setting
    return Setting(
        key=setting.key,
        value=_KUBERNETES.sub(lambda match: reference(match[1], match[2]), setting.value),
        where=setting.where,
        to_do="; ".join(dict.fromkeys(mount(match[1], match[2]) for match in found)),
    )


def providers_in(value: str) -> list[str]:
    """Return the names of the config providers in a value's references."""
    return PLACEHOLDER.findall(value)


def provider_items(items: Sequence[Item], workers: Mapping[str, Sequence[Setting]]) -> Iterator[Item]:
    """Yield declarations of the config providers that values refer to.

    If no worker's settings declare them, their usual names decide.
    """
    told = {each.key: each for settings in workers.values() for each in settings if is_provider_key(each.key)}
    users: dict[str, str] = {}
    for item in items:
        for name in providers_in(item.value) if item.is_line else ():
            users.setdefault(name, item.where)
    declared = {name: told.get(f"{PROVIDERS}.{name}.class") for name in users}
    classes = {name: each.value if each is not None else USUAL.get(name, "") for name, each in declared.items()}
    known = [name for name in users if classes[name] in USUAL.values()]
    if known:
        yield Item(found=PROVIDERS, where=users[known[0]], key=PROVIDERS, value=", ".join(known))
    for name in known:
        key = f"{PROVIDERS}.{name}."
        yield Item(found=f"${{{name}:...}}", where=users[name], key=f"{key}class", value=classes[name])
        for each in told.values():
            if each.key.startswith(f"{key}param."):
                yield Item(found=each.key, where=each.where, key=each.key, value=each.value)
    for name in (name for name in users if name not in known):
        yield Item(found=f"${{{name}:...}}", where=users[name]).by_hand(
            "no config provider of Kafka has this name; write the reference as one of file, directory or env"
        )
    for each in told.values():
        if not each.key.startswith(tuple(f"{PROVIDERS}.{name}." for name in known)) and each.key != PROVIDERS:
            yield Item(found=each.key, where=each.where).left_out("no value refers to it")
