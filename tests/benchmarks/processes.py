"""What a tree of processes costs: CPU seconds and proportional memory, read from /proc (Linux)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """The process and all below it."""
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += tree(int(child))
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


class Meter:
    """CPU seconds and peak memory of a tree, children that ended included (they count for their parent)."""

    def __init__(self, pid: int, beside: tuple[int, ...] = ()) -> None:
        """Take the root of the tree, and other processes whose CPU is counted apart."""
        self._pid = pid
        self._beside = beside
        self.peak_pss_mib = 0.0

    def cpu_s(self) -> float:
        """User and system seconds of the tree so far; waited-for children are counted by their parents."""
        return _cpu_s(tree(self._pid))

    def beside_s(self) -> float:
        """User and system seconds of the processes beside the tree so far."""
        return _cpu_s(self._beside)

    def sample_memory(self) -> None:
        """Take in the tree's present PSS."""
        kib = 0
        for pid in tree(self._pid):
            try:
                for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                    if line.startswith("Pss:"):
                        kib += int(line.split()[1])
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        self.peak_pss_mib = max(self.peak_pss_mib, kib / 1024)


def _cpu_s(pids: Iterable[int]) -> float:
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(fields[index]) for index in (11, 12, 13, 14))
    return total / _TICKS
