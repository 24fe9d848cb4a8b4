"""Keep pandas and numpy out of processes that replicate."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_LEFT_OUT = ("pandas", "numpy")


class _Finder(PathFinder):
    """Finds all modules but those."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if fullname in _LEFT_OUT else PathFinder.find_spec(fullname, path, target)


def leave_out_pandas() -> None:
    """Make Spark and Arrow do without pandas and numpy. Call it before either is imported.

    In a separate process. They import both if they are installed, as for the lag inspector (Streamlit needs them), and work
    without. Replication uses neither; they cost 100 MiB over all processes and a second at start.
    """
    sys.meta_path[:] = [_Finder if finder is PathFinder else finder for finder in sys.meta_path]
