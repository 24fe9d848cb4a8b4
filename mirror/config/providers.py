"""Replace ${provider:path:key} in values like Kafka's config providers: from files, folders, the environment."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mirror.config.properties import Entry, last_wins, parse
from mirror.config.values import refusal, text, text_list
from mirror.errors import SettingsError
from mirror.policy.filters import compile_list
from mirror.policy.java_regex import JavaPattern, RegexError
from mirror.runtime.text_columns import one_line

Layer = Mapping[str, Entry]
Provider = partial[str]  # (path, key) -> value; raises _NothingFound

PROVIDERS = "config.providers"
_JAVA_PACKAGE = "org.apache.kafka.common.config.provider."
# Class -> the supported parameter.
_CLASSES = {
    f"{_JAVA_PACKAGE}FileConfigProvider": "param.allowed.paths",
    f"{_JAVA_PACKAGE}DirectoryConfigProvider": "param.allowed.paths",
    f"{_JAVA_PACKAGE}EnvVarConfigProvider": "param.allowlist.pattern",
}
_PLACEHOLDER = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")  # as in ConfigTransformer: provider, path, key


class _NothingFound(LookupError):
    """A provider has no value. The message has the reason, and never quotes the content of a file."""


@dataclass(frozen=True, slots=True)
class FileTemplate:
    """A value in which all placeholders refer to providers that read files."""

    text: str
    providers: Mapping[str, Provider]

    def value(self) -> str:
        """Return the current value; raises LookupError if the files have none."""
        return _PLACEHOLDER.sub(lambda found: self.providers[found[1]](found[3] or "", found[4]), self.text)

    def files(self) -> list[Path]:
        """Return the paths of the files, without resolving links."""
        found = []
        for match in _PLACEHOLDER.finditer(self.text):
            path = Path(match[3] or "")
            found.append(path / match[4] if self.providers[match[1]].func is _from_folder else path)
        return found


def resolve(entries: Layer, variables: Mapping[str, str]) -> dict[str, Entry]:
    """Return the entries; replace placeholders of declared providers, and keep all others.

    The value of a provider is not searched for placeholders, and the providers' own keys are literal.
    `variables` is the environment. One rule differs from Kafka's: a missing key is an error. Kafka keeps the placeholder.

    Raises:
        SettingsError: A provider has no class or an unknown one, its parameter is invalid, or it has no value.

    Source: org.apache.kafka.common.config.ConfigTransformer and ...config.provider.AllowedPaths, 4.1.1.
    """
    providers = {name: _provider(entries, name, variables) for name in _declared(entries)}
    return {
        key: entry if is_provider_key(key) or not providers else _resolved(entry, providers)
        for key, entry in entries.items()
    }


def is_provider_key(key: str) -> bool:
    """Return whether a key declares or configures config providers."""
    return key == PROVIDERS or key.startswith(f"{PROVIDERS}.")


def honoured_keys(entries: Layer) -> set[str]:
    """Return the keys that have an effect on config providers."""
    keys = {PROVIDERS}
    for name in _declared(entries):
        class_entry = entries.get(_key(name, "class"))
        parameter = _CLASSES.get(text(class_entry)) if class_entry else None
        keys |= {_key(name, what) for what in ("class", parameter) if what}
    return keys


def _declared(entries: Layer) -> list[str]:
    entry = entries.get(PROVIDERS)
    return [name for name in text_list(entry) if name] if entry else []


def _key(name: str, what: str) -> str:
    return f"{PROVIDERS}.{name}.{what}"


def _provider(entries: Layer, name: str, variables: Mapping[str, str]) -> Provider:
    """Return the declared provider of that name."""
    known = ", ".join(_CLASSES)
    entry = entries.get(_key(name, "class"))
    if entry is None:
        raise refusal(entries[PROVIDERS], f'"{name}" has no class. Write {_key(name, "class")} = one of {known}.')
    class_name = text(entry)
    if class_name not in _CLASSES:
        found = f'"{class_name}" is not a config provider of this program; expected one of {known}'
        raise refusal(entry, f'{found}. Name one of them, or take "{name}" out of {PROVIDERS}.')
    parameter_key = _key(name, _CLASSES[class_name])
    parameter = entries.get(parameter_key)
    if class_name.endswith("EnvVarConfigProvider"):
        return partial(_variable, variables, _pattern(parameter), parameter_key)
    find = _from_file if class_name.endswith("FileConfigProvider") else _from_folder
    return partial(find, partial(_allowed, _folders(parameter), parameter_key))


def _resolved(entry: Entry, providers: Mapping[str, Provider]) -> Entry:
    """Return the entry with its placeholders replaced; if it had any, mark it as provided."""

    def look_up(match: re.Match[str]) -> str:
        if match[1] not in providers:
            return match[0]
        try:
            return providers[match[1]](match[3] or "", match[4])
        except _NothingFound as error:
            raise refusal(entry, f'config provider "{match[1]}": {error}') from None

    if not any(match[1] in providers for match in _PLACEHOLDER.finditer(entry.value)):
        return entry
    value = _PLACEHOLDER.sub(look_up, entry.value)
    named = [match[1] for match in _PLACEHOLDER.finditer(entry.value)]
    readers = {name: provider for name, provider in providers.items() if provider.func is not _variable}
    template = FileTemplate(entry.value, readers) if readers.keys() >= set(named) else None
    return replace(entry, value=value, is_provided=True, template=template)


def _pattern(entry: Entry | None) -> JavaPattern | None:
    try:
        return compile_list((text(entry),)) if entry else None
    except RegexError as error:
        assert entry is not None
        raise refusal(entry, str(error)) from None


def _variable(variables: Mapping[str, str], pattern: JavaPattern | None, pattern_key: str, path: str, key: str) -> str:
    """Return an environment variable. The pattern may match any part of its name, as in Kafka."""
    if path:
        raise _NothingFound(f'"{path}" is a path, and the environment has none. Write ${{provider:NAME}}.')
    if pattern is not None and not pattern.find(key):
        raise _NothingFound(f'{pattern_key} does not match "{key}". Widen the pattern or name another variable.')
    if key not in variables:
        raise _NothingFound(f'the environment has no variable "{key}". Set it or correct the name.')
    return variables[key]


def _folders(entry: Entry | None) -> tuple[Path, ...]:
    """Return the real paths below which files may be read; empty for all paths."""
    folders = []
    for item in text_list(entry) if entry else ():
        assert entry is not None
        if not item.startswith("/") or not _exists(Path(item)):
            raise refusal(entry, f'"{item}" is not an absolute path that exists. Correct it or create it.')
        folders.append(_real(item))
    return tuple(folders)


def _allowed(folders: tuple[Path, ...], key: str, path: str) -> Path:
    """Return the real path of an allowed file. Links are resolved first, so that none leads outside."""
    if not path:
        raise _NothingFound("the placeholder names no path. Write ${provider:path:key}.")
    real = _real(path)
    if folders and not any(real.is_relative_to(folder) for folder in folders):
        raise _NothingFound(f"{path} lies outside of {key}. Move it, or add its folder there.")
    return real


def _real(path: str) -> Path:
    try:
        return Path(path).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the path; circular links
        raise _unreadable(path, error) from None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _from_file(allowed: Callable[[str], Path], path: str, key: str) -> str:
    """Return the value of a key in a properties file in UTF-8, as FileConfigProvider does."""
    try:
        found = last_wins(parse(_content(allowed(path), path), path)).get(key)
    except SettingsError:  # the error names a key; in a file of the wrong kind, the key may be a secret
        raise _NothingFound(f"{path} is no Java properties file: it has a bad \\u escape. Correct it.") from None
    if found is None:
        raise _NothingFound(f'{path} has no key "{key}". Add it there, or correct the placeholder.')
    return found.value


def _from_folder(allowed: Callable[[str], Path], path: str, key: str) -> str:
    """Return the whole content of a file in a folder, including its last line break."""
    folder = allowed(path)
    if key in ("", ".", "..") or "/" in key:
        raise _NothingFound(f'"{key}" is not a file name in {path}. Write ${{provider:folder:file}}.')
    file = allowed(str(folder / key))
    if _exists(file) and not file.is_file():
        raise _NothingFound(f"{path}/{key} is not a regular file. Name one.")
    return _content(file, f"{path}/{key}")


def _content(real: Path, path: str) -> str:
    """Return the text of a file; `path` is its name in messages."""
    try:
        return real.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise _NothingFound(f"{path} is not UTF-8 text. Save it as such.") from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: Exception) -> _NothingFound:
    reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
    return _NothingFound(one_line(f"{path} cannot be read ({reason}). Check path and rights."))
