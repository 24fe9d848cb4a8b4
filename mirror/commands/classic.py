"""Run `kafka-mirror classic`: mirror with MirrorMaker 1's files and options, under the same topic names."""

from __future__ import annotations

import logging
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Iterator

from mirror.commands.options import EXITS_OF_A_MIRROR, add_own_settings, describe, own_settings, warn_of_ignored
from mirror.config.given import add_classic_files, settings_given

# Needless options of MirrorMaker 1, with the reason.
NEEDLESS = {
    "offset.commit.interval.ms": "positions are committed every second",
    "abort.on.send.failure": "a record that cannot be written is never dropped: its partition waits and retries",
    "consumer.rebalance.listener": "partitions are not rebalanced",
    "rebalance.listener.args": "partitions are not rebalanced",
    "new.consumer": "there is only one",
    "num.producers": "each task has one",
    "queue.size": "read-ahead is bounded anyway",
    "queue.byte.size": "read-ahead is bounded anyway",
}

DESCRIPTION = """\
Mirror one or more source clusters into one target like kafka-mirror-maker.sh: topics keep their names, new topics are added
automatically, and each source starts at the offsets of the consumer group in its consumer file, and commits to that group. If a
topic has another number of partitions on the target, records go to partitions by key, as with Kafka's default partitioner."""
EXAMPLES = f"""\
examples:
  kafka-mirror classic --consumer.config dc1.properties --producer.config central.properties --whitelist 'orders|payments'
  kafka-mirror classic --consumer.config dc1.properties --consumer.config dc2.properties --producer.config central.properties \\
      --blacklist 'test.*' --num.streams 4
{EXITS_OF_A_MIRROR}"""


def declare(parser: ArgumentParser) -> None:
    """Add MirrorMaker 1's options, and kafka-mirror's own."""
    describe(parser, DESCRIPTION, EXAMPLES)
    add_classic_files(parser, required=True)
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

    settings = settings_given(parsed, own_settings(parsed))
    for line in needless_options(parsed):
        logging.getLogger("mirror").warning("%s", line)
    warn_of_ignored(settings)
    Appliance(settings).run()
    return 0


def needless_options(args: Namespace) -> Iterator[str]:
    """Yield a line for each given option without effect."""
    for option, why in NEEDLESS.items():
        if getattr(args, option.replace(".", "_")) is not None:
            yield f"--{option} has no effect: {why}"
