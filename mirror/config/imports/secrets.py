"""Write references to secrets in the words of Kafka's own config providers."""

from __future__ import annotations

import re

from mirror.config.imports.connectors import Setting

FOLDER = "/etc/kafka-mirror/secrets"  # as docs/kubernetes mounts them
PLACEHOLDER = re.compile(r"\$\{([^}:]+):(?:[^}]*?)\}")
_KUBERNETES = re.compile(r"\$\{(?:strimzisecrets|secrets):(?:[^/:}]+/)?([^:}]+):([^}]+)\}")
_JAVA_PACKAGE = "org.apache.kafka.common.config.provider."
# Names that workers usually give to Kafka's providers; Strimzi declares those that begin with its name.
USUAL = {
    **dict.fromkeys(("file", "strimzifile"), f"{_JAVA_PACKAGE}FileConfigProvider"),
    **dict.fromkeys(("directory", "dir", "strimzidir"), f"{_JAVA_PACKAGE}DirectoryConfigProvider"),
    **dict.fromkeys(("env", "strimzienv"), f"{_JAVA_PACKAGE}EnvVarConfigProvider"),
}


def reference(secret: str, key: str) -> str:
    """Return the reference to a key of a Kubernetes Secret that is mounted as a folder."""
    return f"${{directory:{FOLDER}/{secret}:{key}}}"


def mount(secret: str, key: str) -> str:
    """Return what a person has to do so that `reference` finds something."""
    return f"mount the Secret {secret} at {FOLDER}/{secret}; its key {key} is read"


def without_kubernetes(setting: Setting) -> Setting:
    """Return the setting with references to Kubernetes' API turned into references to mounted folders."""
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
    """Return the names of the config providers that a value refers to."""
    return PLACEHOLDER.findall(value)
