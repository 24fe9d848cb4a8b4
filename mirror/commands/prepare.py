"""Run `kafka-mirror prepare`: write Spark's class archive before the first start."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from mirror.commands.options import describe
from mirror.errors import MirrorError

DESCRIPTION = """\
Have Spark's JVM write its class archive, which later starts map instead of reading 200 jars. Without the archive, the first start
takes some seconds more, and the archive is written when that run ends. Needs no cluster. Run this command once after an
installation, as the user who runs the mirror, and when you build a Docker image."""
EXAMPLES = "exit codes: 0 the archive is there, 1 it could not be written"


def declare(parser: ArgumentParser) -> None:
    """Add the command's options: none."""
    describe(parser, DESCRIPTION, EXAMPLES)


def run(parsed: Namespace) -> int:
    """Write the archive if there is none; return the exit code."""
    from mirror.runtime.java import cache_folder
    from mirror.spark.rehearsal import write_archive
    from mirror.spark.session import class_archive

    archive = class_archive(is_asked_for=True)
    if not archive.is_there:
        print("writing the class archive of Spark's JVM, about twenty seconds ...", flush=True)
        write_archive(archive)
    if not archive.is_there:
        raise MirrorError(
            f"no class archive was written in {cache_folder()}. Is there room, is it writable, and does Java have "
            "lib/server/classes.jsa?"
        )
    print(f"the class archive is in {cache_folder()}")
    return 0
