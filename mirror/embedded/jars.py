"""Find the jars of a Kafka distribution, or download them with PySpark's Ivy."""

from __future__ import annotations

import fcntl
import importlib.util
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from mirror.errors import MirrorError
from mirror.runtime.class_archive import ClassArchive
from mirror.runtime.java import cache_folder, java

KAFKA_VERSION = "4.1.1"
# Versions for tests, only the broker: 2.8 is the first with KRaft, and can still write the formats of 0.9 and 0.10.
BROKER = "kafka_2.13"
RESOLVE_TIMEOUT_S = 900  # about 55 MB and 100 small metadata files; one minute on a fast connection

# Organisation, module, version. kafka-tools has the console programs, connect-mirror has MirrorMaker 2.
# Kafka 4.1 uses slf4j 1.7, so log4j-slf4j-impl (not -slf4j2-impl) connects it to log4j2, which prints only errors.
Modules: TypeAlias = tuple[tuple[str, str, str], ...]
MODULES: Modules = (
    ("org.apache.kafka", BROKER, KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
    ("org.apache.kafka", "connect-mirror", KAFKA_VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
)

Progress = Callable[[str], None]


def resolve(progress: Progress = print, *, version: str = KAFKA_VERSION) -> Path:
    """Return the folder with all jars; the first time, download them from Maven Central.

    Args:
        progress: Called with one sentence per step; not called if the jars are in the cache.
        version: Version of Kafka. For versions other than KAFKA_VERSION, only the jars of a broker.

    Raises:
        MirrorError: Java is missing, or the jars are neither cached nor can be downloaded.
    """
    folder = cache_folder() / f"kafka-{version}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(folder.parent / "jars.lock"):
        if not folder.is_dir():  # another process may have downloaded them while this one waited
            _fetch(folder, progress, version)
    return folder


def class_archive(*, version: str = KAFKA_VERSION, is_asked_for: bool = False) -> ClassArchive:
    """Return the class archive of a broker; the broker uses it if it was written."""
    jars = cache_folder() / f"kafka-{version}"
    return ClassArchive(cache_folder(), java(), f"kafka-{version}", jars, is_asked_for=is_asked_for)


def classpath(folder: Path) -> str:
    """Return the Java class path of all jars in a folder."""
    return str(folder / "*")


def _fetch(folder: Path, progress: Progress, version: str) -> None:
    """Resolve into a temporary folder and rename it: an existing folder is always complete."""
    modules = MODULES if version == KAFKA_VERSION else (("org.apache.kafka", BROKER, version),)
    progress(f"fetching Kafka {version} (about 55 MB, once) into {folder}")
    ivy_cache = folder.parent / "ivy"  # kept after a failure, so that the next attempt continues
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as name:
        work = Path(name)
        (work / "ivy.xml").write_text(_ivy_file(modules))
        _run_ivy(work, ivy_cache, progress, version)
        jars = work / "jars"
        _check_complete(jars, modules)
        count = len(list(jars.glob("*.jar")))
        jars.rename(folder)
    shutil.rmtree(ivy_cache, ignore_errors=True)
    progress(f"Kafka {version} is ready: {count} jars in {folder}")


def _run_ivy(work: Path, ivy_cache: Path, progress: Progress, version: str) -> None:
    command = [java(), "-cp", classpath(_pyspark_jars()), "org.apache.ivy.Main"]
    command += ["-ivy", str(work / "ivy.xml"), "-cache", str(ivy_cache), "-confs", "default"]
    command += [
        "-retrieve",
        str(work / "jars" / "[artifact]-[revision](-[classifier]).[ext]"),
        "-types",
        "jar",
        "bundle",
    ]
    output: list[str] = []
    fetched = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=work) as ivy:
        watchdog = threading.Timer(RESOLVE_TIMEOUT_S, ivy.kill)
        watchdog.start()
        try:
            for line in ivy.stdout or ():
                output.append(line.strip())
                if "[SUCCESSFUL ]" in line:
                    fetched += 1
                    if fetched % 20 == 0:
                        progress(f"fetched {fetched} jars")
            code = ivy.wait()
        finally:
            watchdog.cancel()
    if code != 0:
        raise MirrorError(
            f"Kafka {version} could not be fetched from Maven Central ({_reason(output, code)}). "
            f"Connect to the network and try again, or copy its jars to {cache_folder() / f'kafka-{version}'}."
        )


def _reason(output: list[str], code: int) -> str:
    """Return the most useful line of Ivy's output about its failure."""
    if code < 0:
        return f"no answer within {RESOLVE_TIMEOUT_S} s"
    for mark in ("UnknownHost", "Host ", "timed out", "SERVER ERROR", "module not found", "FAILED"):
        for line in output:
            if mark in line:
                return line.strip(":\t ")[:160]
    return f"Ivy ended with code {code}"


def _check_complete(jars: Path, modules: Modules) -> None:
    missing = [module for _, module, version in modules if not (jars / f"{module}-{version}.jar").is_file()]
    if missing:
        raise MirrorError(
            f"Ivy succeeded but did not fetch {', '.join(missing)}. Remove {cache_folder()} and try again."
        )


def _ivy_file(modules: Modules) -> str:
    wanted = "\n".join(
        f'    <dependency org="{org}" name="{name}" rev="{version}" conf="default->default"/>'
        for org, name, version in modules
    )
    return (
        '<ivy-module version="2.0">\n  <info organisation="kafka-mirror" module="local"/>\n'
        f'  <configurations><conf name="default"/></configurations>\n  <dependencies>\n{wanted}\n'
        "  </dependencies>\n</ivy-module>\n"
    )


def _pyspark_jars() -> Path:
    """Return PySpark's jar folder without importing PySpark (an import costs half a second)."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MirrorError("PySpark is not installed in this Python. Install kafka-mirror with its dependencies.")
    return Path(spec.origin).parent / "jars"


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
