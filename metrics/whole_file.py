"""Write a file atomically: readers see the old or the new content, never a part."""

from __future__ import annotations

from pathlib import Path


def write(path: Path, content: str) -> None:
    """Write a file next to `path`, then replace `path` with it. Raises OSError."""
    partial = path.with_suffix(".partial")
    partial.write_text(content)
    partial.replace(path)
