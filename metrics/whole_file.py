"""Write a file all or nothing: who reads it meets the old content or the new, never a part."""

from __future__ import annotations

from pathlib import Path


def write(path: Path, content: str) -> None:
    """Write `content` beside the file, then put it in its place; raises OSError where that cannot be done."""
    partial = path.with_suffix(".partial")
    partial.write_text(content)
    partial.replace(path)
