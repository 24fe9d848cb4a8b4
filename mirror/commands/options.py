"""Declare options that several commands share, with few imports, so that `--help` is fast."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from mirror.config.given import OF_THE_MIRROR, settings_given
from mirror.config.table import OPTIONS

if TYPE_CHECKING:
    from mirror.config.settings import Settings


EXITS_OF_A_MIRROR = """\
exit codes: 0 stopped, 2 settings, 3 no flow could begin: a cluster did not respond, 4 Spark, the disk or the clock,
6 no flow could begin: a cluster refused"""


def describe(parser: argparse.ArgumentParser, description: str, examples: str = "") -> None:
    """Set the text around the options of `--help`, with its line breaks."""
    parser.description = description
    parser.epilog = examples
    parser.formatter_class = argparse.RawDescriptionHelpFormatter


def add_file(parser: argparse.ArgumentParser, what: str = OF_THE_MIRROR) -> None:
    """Add FILE."""
    parser.add_argument("file", type=Path, metavar="FILE", help=what)


def add_flow(parser: argparse.ArgumentParser) -> None:
    """Add A->B and --topic."""
    parser.add_argument("flow", metavar="A->B", help="the flow")
    parser.add_argument(
        "--topic", metavar="REGEX", help="only these topics, by their names on the source (default: all)"
    )


def add_targets(parser: argparse.ArgumentParser) -> None:
    """Add --clusters."""
    parser.add_argument("--clusters", nargs="+", metavar="ALIAS", default=[], help="only flows into these targets")


def add_own_settings(parser: argparse.ArgumentParser) -> None:
    """Add the options that set a `mirror.*` key."""
    own = parser.add_argument_group("settings of kafka-mirror (each is also a key mirror.* of the file)")
    for setting in OPTIONS:
        own.add_argument(setting.option, dest=setting.key, metavar=setting.type.metavar, help=setting.help)
    own.add_argument(
        "--spark", action="append", default=[], metavar="KEY=VALUE", help="spark.KEY for Spark; repeatable"
    )


def own_settings(parsed: argparse.Namespace) -> dict[str, str]:
    """Return the given options of `add_own_settings`, by the keys of the file."""
    values = {setting.key: getattr(parsed, setting.key) for setting in OPTIONS}
    given = {key: value for key, value in values.items() if value is not None}
    for setting in parsed.spark:
        key, _, value = setting.partition("=")
        given[f"mirror.spark.{key.removeprefix('spark.')}"] = value
    return given


def load_to_run(parsed: argparse.Namespace) -> Settings:
    """Load the file with the given options; warn about keys without effect."""
    settings = settings_given(parsed, own_settings(parsed), parsed.clusters)
    warn_of_ignored(settings)
    return settings


def warn_of_ignored(settings: Settings) -> None:
    """Log the keys without effect, with the reason if known, and likely mistakes."""
    for note in settings.notes:
        logging.getLogger("mirror").warning("%s", note)
    if settings.ignored:
        why = settings.ignored_why
        named = ", ".join(f"{key} ({why[key]})" if key in why else key for key in settings.ignored)
        logging.getLogger("mirror").warning("without effect: %s", named)


def names(text: str) -> list[str]:
    """Return the names in a comma-separated list."""
    return [name for name in text.split(",") if name]


def seconds(text: str) -> float:
    """Return the time to wait between rounds."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 1 <= found <= 86_400:
        raise argparse.ArgumentTypeError(f'"{text}" is not a time limit. Write 1 to 86400 seconds.')
    return found


def positive(text: str) -> int:
    """Return a number of records."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is not a number of records. Write 1 or more.')
    return int(text)
