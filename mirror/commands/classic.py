"""`kafka-mirror classic`: make flows that keep topic names from MirrorMaker 1's consumer and producer files."""

from __future__ import annotations

import logging
import re
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mirror.commands.options import add_own_settings, describe, own_settings, warn_of_ignored
from mirror.config.layers import is_common
from mirror.config.load import checked, gathered
from mirror.config.properties import Entry, last_wins, read
from mirror.config.settings import Settings
from mirror.errors import SettingsError

TARGET = "target"
# What MirrorMaker 1 did not do either.
_FIXED = {
    "replication.policy.class": "IdentityReplicationPolicy",
    "replication.factor": "-1",  # the brokers' default, as topics were created by writing to them
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "emit.heartbeats.enabled": "false",
}
# Options of MirrorMaker 1 that have nothing to do here, with the reason.
NEEDLESS = {
    "offset.commit.interval.ms": "positions are committed every second",
    "abort.on.send.failure": "a record that cannot be written is never dropped: its partition waits and tries again",
    "consumer.rebalance.listener": "partitions are not rebalanced",
    "rebalance.listener.args": "partitions are not rebalanced",
    "new.consumer": "there is only one",
    "num.producers": "each task has one",
    "queue.size": "what is read ahead is bounded by itself",
    "queue.byte.size": "what is read ahead is bounded by itself",
}
_OLD_CLIENTS = {
    "zookeeper.connect": "bootstrap.servers",
    "metadata.broker.list": "bootstrap.servers",
    "broker.list": "bootstrap.servers",
    "zk.connect": "bootstrap.servers",
}


DESCRIPTION = """\
Mirror one or more source clusters into one target as kafka-mirror-maker.sh did: topics keep their names, topics that appear
later join by themselves, and progress shows in the consumer group of each consumer file, where it also begins. A topic that
has another number of partitions on the target keeps it: keyed records go where Kafka's default partitioner puts them."""
EXAMPLES = """\
examples:
  kafka-mirror classic --consumer.config dc1.properties --producer.config central.properties --whitelist 'orders|payments'
  kafka-mirror classic --consumer.config dc1.properties --consumer.config dc2.properties --producer.config central.properties \\
      --blacklist 'test.*' --num.streams 4"""


def declare(parser: ArgumentParser) -> None:
    """Add MirrorMaker 1's options, and the appliance's own."""
    describe(parser, DESCRIPTION, EXAMPLES)
    parser.add_argument(
        "--consumer.config",
        dest="consumer_configs",
        type=Path,
        action="append",
        required=True,
        metavar="FILE",
        help="consumer properties of a source cluster; once for each",
    )
    parser.add_argument(
        "--producer.config",
        dest="producer_config",
        type=Path,
        required=True,
        metavar="FILE",
        help="producer properties of the target cluster",
    )
    parser.add_argument("--include", metavar="REGEX", help='topics to mirror; "," is "|", "*" is every topic')
    parser.add_argument("--whitelist", metavar="REGEX", help="the same")
    parser.add_argument("--blacklist", metavar="REGEX", help="mirror every topic but these")
    parser.add_argument(
        "--num.streams", dest="num_streams", type=int, default=1, metavar="N", help="tasks per source (default 1)"
    )
    parser.add_argument("--message.handler", dest="message_handler", help=SUPPRESS)
    parser.add_argument("--message.handler.args", dest="message_handler_args", help=SUPPRESS)
    for option, why in NEEDLESS.items():
        parser.add_argument(
            f"--{option}", dest=option.replace(".", "_"), nargs="?", const="", metavar="X", help=f"accepted: {why}"
        )
    add_own_settings(parser)


def run(parsed: Namespace) -> int:
    """Replicate until a signal; return the exit code."""
    from mirror.appliance import Appliance

    settings = classic_settings(parsed, own_settings(parsed))
    for line in needless_options(parsed):
        logging.getLogger("mirror").warning("%s", line)
    warn_of_ignored(settings)
    Appliance(settings).run()
    return 0


def classic_settings(args: Namespace, options: Mapping[str, str]) -> Settings:
    """Return the settings of one flow per consumer file; `options` are the appliance's own.

    Raises:
        SettingsError: an option or a file cannot be honoured.
    """
    include, exclude = _filters(args)
    if args.message_handler:
        raise SettingsError(
            f'--message.handler: "{args.message_handler}" is a Java class that would change records; they cross as they '
            "are here. Leave it out, or transform behind the mirror."
        )
    entries: dict[str, Entry] = {}
    aliases = _aliases(args.consumer_configs)
    groups = {}
    for alias, path in aliases.items():
        theirs = last_wins(_known(read(path)))
        groups[alias] = theirs.pop("group.id", None)
        entries |= _scoped(theirs, alias, "consumer")
        if "auto.offset.reset" not in theirs:  # a consumer's own default, where MirrorMaker 2 has the other
            entries |= _given({f"{alias}.consumer.auto.offset.reset": "latest"})
    entries |= _scoped(last_wins(_known(read(args.producer_config))), TARGET, "producer")
    flow = {"topics": include, "topics.exclude": exclude, "tasks.max": str(args.num_streams), **_FIXED}
    fixed = {"clusters": ",".join([*aliases, TARGET]), **flow} | {
        f"{alias}->{TARGET}.enabled": "true" for alias in aliases
    }
    entries |= _given(fixed)
    settings = checked(gathered(args.producer_config, entries.values(), options))
    flows = tuple(
        replace(
            flow, grows_topics=False, source_group=group.value.strip() if (group := groups[flow.source.alias]) else ""
        )
        for flow in settings.flows
    )
    return replace(settings, flows=flows)


def java_patterns(text: str) -> str:
    """Return a list of topics as MirrorMaker 1 reads it: "," is "|", blanks and quotes around fall away, "*" is ".*"."""
    pattern = re.sub(r"^[\"']+|[\"']+$", "", text.strip().replace(" ", ""))
    return ",".join(".*" if part == "*" else part for part in pattern.split(","))


def needless_options(args: Namespace) -> Iterator[str]:
    """Yield a line for each option that was given and has nothing to do here."""
    for option, why in NEEDLESS.items():
        if getattr(args, option.replace(".", "_")) is not None:
            yield f"--{option} has no effect: {why}"


def _filters(args: Namespace) -> tuple[str, str]:
    """Return the patterns to include and those to exclude."""
    given = {name: text for name in ("include", "whitelist", "blacklist") if (text := getattr(args, name)) is not None}
    if len(given) != 1:
        found = " and ".join(f"--{name}" for name in given) or "none of them"
        raise SettingsError(
            f"classic: {found} given; expected exactly one of --include (or --whitelist) and --blacklist."
        )
    ((name, text),) = given.items()
    patterns = java_patterns(text)
    if not patterns:
        raise SettingsError(f'--{name}: names no topic. Write a regular expression, such as "orders|payments" or "*".')
    return (".*", patterns) if name == "blacklist" else (patterns, "")


def _aliases(paths: Sequence[Path]) -> dict[str, Path]:
    """Return a name for each source, by its file: positions are kept under it, so it must not depend on the order."""
    aliases: dict[str, Path] = {}
    for path in paths:
        alias = re.sub(r"[^A-Za-z0-9_-]+", "-", path.stem) or "source"
        if alias in aliases or alias == TARGET:
            raise SettingsError(
                f'--consumer.config: {path} would be called "{alias}" as {aliases.get(alias, "the target")} is; expected '
                "files of different names, for positions are kept under them. Rename one."
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
