"""Keep pandas and numpy out of processes that replicate."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_LEFT_OUT = ("pandas", "numpy")


class _Finder(PathFinder):
    """Finds all modules except pandas and numpy."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if fullname in _LEFT_OUT else PathFinder.find_spec(fullname, path, target)


def leave_out_pandas() -> None:
    """Make Spark and Arrow work without pandas and numpy. Call this before either is imported.

    Call this only in a process that replicates. Spark and Arrow import both if they are installed (the lag inspector's
    Streamlit needs them), and also work without them. Replication uses neither; they cost 100 MiB over all processes, and a
    second at the start.
    """
    sys.meta_path[:] = [_Finder if finder is PathFinder else finder for finder in sys.meta_path]


if __name__ == "__main__":  # python -m mirror.runtime.without_pandas MODULE ARGUMENTS: as python -m MODULE ARGUMENTS
    leave_out_pandas()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
