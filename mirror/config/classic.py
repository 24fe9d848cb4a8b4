"""Make flows that keep topic names from MirrorMaker 1's consumer and producer files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mirror.config.layers import is_common
from mirror.config.load import checked, gathered
from mirror.config.properties import Entry, last_wins, read
from mirror.config.settings import Settings
from mirror.errors import SettingsError

TARGET = "target"
# MirrorMaker 1 did not do these things either.
_FIXED = {
    "replication.policy.class": "IdentityReplicationPolicy",
    "replication.factor": "-1",  # the brokers' default: MirrorMaker 1 let the brokers create topics automatically
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "emit.heartbeats.enabled": "false",
}
_OLD_CLIENTS = {
    "zookeeper.connect": "bootstrap.servers",
    "metadata.broker.list": "bootstrap.servers",
    "broker.list": "bootstrap.servers",
    "zk.connect": "bootstrap.servers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicFiles:
    """MirrorMaker 1's files, one per source and one for the target, and its options. None: not given."""

    consumers: Sequence[Path]
    producer: Path
    include: str | None = None
    whitelist: str | None = None
    blacklist: str | None = None
    num_streams: int = 1
    message_handler: str | None = None


def classic_settings(given: ClassicFiles, options: Mapping[str, str], targets: Sequence[str] = ()) -> Settings:
    """Return the settings of one flow per consumer file; `options` are the process' own settings.

    `targets`: as in `load`.

    Raises:
        SettingsError: an option or a file is not supported.
    """
    include, exclude = _filters(given)
    if given.message_handler:
        raise SettingsError(
            f'--message.handler: "{given.message_handler}" is a Java class that would change records, which is not '
            "supported. Leave it out, or use the transforms of a file for 'kafka-mirror run'."
        )
    entries: dict[str, Entry] = {}
    aliases = _aliases(given.consumers)
    groups = {}
    for alias, path in aliases.items():
        theirs = last_wins(_known(read(path)))
        groups[alias] = theirs.pop("group.id", None)
        entries |= _scoped(theirs, alias, "consumer")
        if "auto.offset.reset" not in theirs:  # MirrorMaker 1's default, unlike MirrorMaker 2's
            entries |= _given({f"{alias}.consumer.auto.offset.reset": "latest"})
    entries |= _scoped(last_wins(_known(read(given.producer))), TARGET, "producer")
    flow = {"topics": include, "topics.exclude": exclude, "tasks.max": str(given.num_streams), **_FIXED}
    fixed = {"clusters": ",".join([*aliases, TARGET]), **flow} | {
        f"{alias}->{TARGET}.enabled": "true" for alias in aliases
    }
    entries |= _given(fixed)
    settings = checked(gathered(given.producer, entries.values(), options), targets=targets)
    flows = tuple(
        replace(
            flow, grows_topics=False, source_group=group.value.strip() if (group := groups[flow.source.alias]) else ""
        )
        for flow in settings.flows
    )
    return replace(settings, flows=flows)


def java_patterns(text: str) -> str:
    """Return a list of topics in MirrorMaker 1's notation: "," is "|", "*" is ".*".

    Blanks, and quotes around the list, are dropped.
    """
    pattern = re.sub(r"^[\"']+|[\"']+$", "", text.strip().replace(" ", ""))
    return ",".join(".*" if part == "*" else part for part in pattern.split(","))


def _filters(given: ClassicFiles) -> tuple[str, str]:
    """Return the pattern to include and the pattern to exclude."""
    ways = {"include": given.include, "whitelist": given.whitelist, "blacklist": given.blacklist}
    asked = {name: text for name, text in ways.items() if text is not None}
    if len(asked) != 1:
        found = " and ".join(f"--{name}" for name in asked) or "none of them"
        raise SettingsError(
            f"classic: {found} given; expected exactly one of --include (or --whitelist) and --blacklist."
        )
    ((name, text),) = asked.items()
    patterns = java_patterns(text)
    if not patterns:
        raise SettingsError(f'--{name}: names no topic. Write a regular expression, such as "orders|payments" or "*".')
    return (".*", patterns) if name == "blacklist" else (patterns, "")


def _aliases(paths: Sequence[Path]) -> dict[str, Path]:
    """Return a name for each source from the name of its file. It must not depend on the order of the files.

    Positions are stored under this name.
    """
    aliases: dict[str, Path] = {}
    for path in paths:
        alias = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem) or "source"
        if alias in aliases or alias == TARGET:
            raise SettingsError(
                f'--consumer.config: {path} would get the name "{alias}", like {aliases.get(alias, "the target")}; expected '
                "files of different names, because positions are stored under them. Rename one."
            )
        aliases[alias] = path
    return aliases


def _known(entries: Sequence[Entry]) -> Iterator[Entry]:
    for entry in entries:
        if entry.key in _OLD_CLIENTS:
            raise SettingsError(
                f"{entry.where}: {entry.key}: is of the clients that spoke to ZooKeeper; expected "
                f"{_OLD_CLIENTS[entry.key]}. Write host:port of the brokers there."
            )
        yield entry


def _scoped(entries: Mapping[str, Entry], alias: str, role: str) -> dict[str, Entry]:
    """Return a client's properties under the names they have in a MirrorMaker 2 file."""
    renamed = (
        (f"{alias}.{key}" if is_common(key) else f"{alias}.{role}.{key}", entry) for key, entry in entries.items()
    )
    return {key: Entry(key=key, value=entry.value, where=entry.where) for key, entry in renamed}


def _given(values: Mapping[str, str]) -> dict[str, Entry]:
    return {key: Entry(key=key, value=value, where="classic") for key, value in values.items()}
