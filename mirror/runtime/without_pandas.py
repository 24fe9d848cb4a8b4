"""Keep pandas and numpy out of processes that replicate."""

from __future__ import annotations

import sys


def leave_out_pandas() -> None:
    """Make Spark and Arrow do without pandas and numpy: to call before either is imported, in a process of our own.

    They import both where they are installed, as they are beside the lag inspector (Streamlit needs them), and get by
    without. Replication uses neither; they cost 100 MiB over all processes and a second at start.
    """
    for name in ("pandas", "numpy"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # how the import system says "is not there"
