"""Read secrets again after their files have changed: files of config providers, key stores and trust stores."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mirror.config.properties import Entry, Properties
from mirror.config.values import client_text, text

_STORES = ("ssl.truststore.location", "ssl.keystore.location")


def fresh(java: Mapping[str, str]) -> Mapping[str, str]:
    """Return a client's properties with the current values from the files.

    A value that cannot be read stays as it was.
    """
    if not isinstance(java, Properties) or not java.templates:
        return java
    values = dict(java)
    for key, template in java.templates.items():
        with suppress(LookupError):
            values[key] = text(Entry(key=key, value=template.value(), where=""))
    return Properties(values, provided=java.provided, templates=java.templates)


class SecretFiles:
    """The files from which a client's properties come, or which they name."""

    def __init__(self, java: Mapping[str, str]) -> None:
        templates = java.templates.values() if isinstance(java, Properties) else ()
        stores = [location for key in _STORES if (location := client_text(java, key))]
        self._files = {*(file for template in templates for file in template.files()), *map(Path, stores)}
        self._seen = self._stamps()

    def changed(self) -> bool:
        """Return whether a file has changed since the last call."""
        before, self._seen = self._seen, self._stamps()
        return before != self._seen

    def _stamps(self) -> dict[Path, tuple[int, int, int] | None]:
        return {file: _stamp(file) for file in self._files}


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """Return a fingerprint of a file's version; None if the file does not exist."""
    try:
        found = file.stat()
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
