"""What the first start would be slow for can be done at install."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.nightly]


def test_the_class_archive_is_written_once(tmp_path: Path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}

    def prepared() -> list[str]:
        command = [sys.executable, "-m", "mirror.cli", "prepare"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=600)
        return done.stdout.splitlines()

    there = f"the class archive is in {tmp_path / 'kafka-mirror'}"
    assert prepared() == ["writing the class archive of Spark's JVM, about twenty seconds ...", there]
    (archive,) = (tmp_path / "kafka-mirror").iterdir()
    assert archive.suffix == ".jsa"
    assert archive.stat().st_size > 50 << 20, "it has Spark's classes, not the JVM's alone"
    assert prepared() == [there]


def test_a_jvm_that_does_not_start_ends_the_program(tmp_path: Path):
    """Threads of the driver do not keep the process; the exit code lets a supervisor start it again."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "JAVA_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "mirror.cli", "prepare"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 4
    assert done.stderr.splitlines()[-1].startswith("kafka-mirror: Spark's JVM ended at its start")
