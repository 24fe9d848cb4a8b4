"""Declare and read the source of a command's settings: FILE, or MirrorMaker 1's files.

At first, only the standard library is imported, so that `--help` responds immediately.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mirror.config.settings import Settings

EITHER = (
    "expected either FILE, a connect-mirror-maker.properties, or both --consumer.config and --producer.config, "
    "MirrorMaker 1's files. Name one of the two."
)
OF_THE_MIRROR = "the connect-mirror-maker.properties of the mirror"


def add_mirror(parser: argparse.ArgumentParser, what: str = OF_THE_MIRROR) -> None:
    """Add FILE and the options of `kafka-mirror classic`. `settings_given` requires one of the two."""
    parser.add_argument("file", type=Path, metavar="FILE", nargs="?", help=what)
    add_classic_files(parser, required=False)


def add_mirrors(parser: argparse.ArgumentParser) -> None:
    """Add FILE... and the options of `kafka-mirror classic`. `mirrors_of` requires one of the two."""
    what = f"{OF_THE_MIRROR}; several files, or directories with *.properties, for several mirrors"
    parser.add_argument("files", type=Path, metavar="FILE", nargs="*", help=what)
    add_classic_files(parser, required=False)


def add_classic_files(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add MirrorMaker 1's files, and the topics that it mirrors."""
    group = parser if required else parser.add_argument_group("instead of FILE, what kafka-mirror classic was given")
    group.add_argument(
        "--consumer.config",
        dest="consumer_configs",
        type=Path,
        action="append",
        required=required,
        metavar="FILE",
        help="consumer properties of a source cluster; once for each",
    )
    group.add_argument(
        "--producer.config",
        dest="producer_config",
        type=Path,
        required=required,
        metavar="FILE",
        help="producer properties of the target cluster",
    )
    group.add_argument("--include", metavar="REGEX", help='topics to mirror; "," is "|", "*" is every topic')
    group.add_argument("--whitelist", metavar="REGEX", help="the same")
    group.add_argument("--blacklist", metavar="REGEX", help="mirror every topic but these")


def settings_given(
    parsed: argparse.Namespace, options: Mapping[str, str] | None = None, targets: Sequence[str] = ()
) -> Settings:
    """Load the given settings with further properties; keep only flows into `targets`, if any.

    Raises:
        SettingsError: FILE and MirrorMaker 1's files are both given, or both missing, or their content is refused.
    """
    from mirror.config.classic import ClassicFiles, classic_settings
    from mirror.config.load import load
    from mirror.errors import SettingsError

    file, consumers, producer = (
        getattr(parsed, name, None) for name in ("file", "consumer_configs", "producer_config")
    )
    if file is not None and not (consumers or producer):
        return load(file, options=options, targets=targets)
    if file is not None or not (consumers and producer):
        raise SettingsError(EITHER)
    given = ClassicFiles(
        consumers=consumers,
        producer=producer,
        include=parsed.include,
        whitelist=parsed.whitelist,
        blacklist=parsed.blacklist,
        num_streams=getattr(parsed, "num_streams", 1),
        message_handler=getattr(parsed, "message_handler", None),
    )
    return classic_settings(given, options or {}, targets)


class Given(NamedTuple):
    """One of the given mirrors: its unique name, its file as commands name it, its settings."""

    name: str
    file: str
    settings: Settings


def mirrors_of(parsed: argparse.Namespace) -> list[Given]:
    """Load the settings of each mirror that `add_mirrors` was given.

    Raises:
        SettingsError: FILE and MirrorMaker 1's files are both given, or both missing, or a file is refused.
    """
    from mirror.config.load import load
    from mirror.errors import SettingsError

    if not parsed.files:
        return [Given("mirror", "FILE", settings_given(parsed))]
    if parsed.consumer_configs or parsed.producer_config:
        raise SettingsError(EITHER)
    files = _settings_files(parsed.files)
    stems = [path.stem for path in files]
    names = [path.stem if stems.count(path.stem) == 1 else f"{path.parent.name}/{path.stem}" for path in files]
    return [Given(name, path.name, load(path)) for name, path in zip(names, files, strict=True)]


def _settings_files(given: Sequence[Path]) -> list[Path]:
    """Return the given files, and all *.properties of the given directories, each file once.

    Raises:
        SettingsError: a directory has no such file, or two files have the same name and directory.
    """
    from mirror.errors import SettingsError

    found: dict[Path, None] = {}
    for path in given:
        inside = sorted(path.glob("*.properties")) if path.is_dir() else [path]
        if not inside:
            raise SettingsError(f"{path}: the directory has no *.properties. Name the settings files.")
        found |= dict.fromkeys(each.resolve() for each in inside)
    names = [f"{path.parent.name}/{path.stem}" for path in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SettingsError(f"{twice[0]}: two files have this directory and name. Rename one of them.")
    return list(found)
