"""The class-data archive: written once, used when whole, never in the way."""

from __future__ import annotations

import os
import time
from pathlib import Path

from mirror.runtime.class_archive import ABANDONED_S, ClassArchive


def a_java(folder: Path) -> str:
    program = folder / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch()
    modules = folder / "jdk" / "lib" / "modules"
    modules.parent.mkdir()
    modules.touch()
    base = folder / "jdk" / "lib" / "server" / "classes.jsa"
    base.parent.mkdir()
    base.touch()
    return str(program)


def archive_in(cache: Path, java: str, *, is_asked_for: bool = False) -> ClassArchive:
    return ClassArchive(cache, java, "spark-1.0", Path("jars"), is_asked_for=is_asked_for)


def written(option: str) -> Path:
    return Path(option.split()[0].partition("=")[2])


def test_the_first_run_writes_it_and_the_second_uses_it(tmp_path):
    java, cache = a_java(tmp_path), tmp_path / "cache"
    first = archive_in(cache, java)
    option = first.jvm_option()
    assert option.startswith("-XX:ArchiveClassesAtExit=")
    written(option).write_text("classes")
    assert archive_in(cache, java).jvm_option() == "", "not used before it is kept"
    first.keep()
    assert archive_in(cache, java).jvm_option() == f"-XX:SharedArchiveFile={next(cache.glob('*.jsa'))}"


def test_an_archive_that_was_not_written_in_time_is_not_tried_at_each_start(tmp_path):
    """On a machine with too much to do each start would write one, each end wait for it, and nobody keep it."""
    java, cache = a_java(tmp_path), tmp_path / "cache"
    late = written(archive_in(cache, java).jvm_option())
    late.write_text("half of the classes")
    assert archive_in(cache, java).jvm_option() == ""
    assert archive_in(cache, java, is_asked_for=True).jvm_option().startswith("-XX:ArchiveClassesAtExit=")
    os.utime(late, (time.time() - ABANDONED_S - 1,) * 2)
    assert archive_in(cache, java).jvm_option().startswith("-XX:ArchiveClassesAtExit=")


def test_a_java_without_its_base_archive_writes_none(tmp_path):
    """As after jlink: with ArchiveClassesAtExit its JVM would end at once."""
    java = a_java(tmp_path)
    (tmp_path / "jdk" / "lib" / "server" / "classes.jsa").unlink()
    assert archive_in(tmp_path / "cache", java, is_asked_for=True).jvm_option() == ""


def test_another_java_gets_another(tmp_path):
    java, cache = a_java(tmp_path), tmp_path / "cache"
    first = archive_in(cache, java)
    written(first.jvm_option()).write_text("classes")
    first.keep()
    os.utime(tmp_path / "jdk" / "lib" / "modules", (1, 1))
    assert archive_in(cache, java).jvm_option().startswith("-XX:ArchiveClassesAtExit=")


def test_files_of_killed_runs_are_removed(tmp_path):
    old, new = tmp_path / "spark-1.partial", tmp_path / "spark-2.partial"
    old.touch()
    new.touch()
    os.utime(old, (time.time() - ABANDONED_S - 1,) * 2)
    archive_in(tmp_path, "/usr/bin/java").jvm_option()
    assert not old.exists()
    assert new.exists()


def test_it_does_without_where_it_cannot_be_kept(tmp_path):
    (tmp_path / "file").touch()
    archive = archive_in(tmp_path / "file" / "cache", "/usr/bin/java")
    assert archive.jvm_option() == ""
    archive.keep()  # nothing was written; nothing to keep, and no error
