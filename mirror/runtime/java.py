"""Find Java, and the cache folder of downloads."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mirror.errors import MirrorError
from mirror.runtime.user import home_folder


def cache_folder() -> Path:
    """Return the folder for downloads: XDG_CACHE_HOME or ~/.cache, then kafka-mirror."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else home_folder() / ".cache") / "kafka-mirror"


def java() -> str:
    """Return the path of Java: from JAVA_HOME if set, else from the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise MirrorError("no Java found: neither JAVA_HOME nor the PATH has it. Install Java 17 or later.")
    return found
