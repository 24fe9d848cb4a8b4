"""Memory, file descriptors and threads of the appliance, over time."""

from __future__ import annotations

import contextlib
import os
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.processes import tree
from tests.soak.stage import Stage

SAMPLE_S = 5.0
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


class Sample(NamedTuple):
    """`at_s` on the monotonic clock; `rss_mib` of all processes of the appliance, the others of its driver."""

    at_s: float
    rss_mib: float
    fds: int
    threads: int


class Sampler:
    """Samples from a thread while its context lasts."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._samples: list[Sample] = []
        self._stop = threading.Event()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Sample until the block ends."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(10)

    def _run(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            if (process := self._stage.appliance.process) is None:
                continue
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
                pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in tree(process.pid))
                own = Path(f"/proc/{process.pid}")
                fds, threads = (len(list((own / what).iterdir())) for what in ("fd", "task"))
                self._samples.append(Sample(time.monotonic(), pages * PAGE_MIB, fds, threads))

    def text(self) -> str:
        """Say how each grew (the median of the last third beside that of the first), and the memory's peak and slope."""
        if len(self._samples) < 6:
            return "too short for a trend"
        third = len(self._samples) // 3
        first, last = self._samples[:third], self._samples[-third:]
        parts = []
        for name, at in (("RSS MiB", 1), ("driver fds", 2), ("driver threads", 3)):
            before, after = (statistics.median(sample[at] for sample in part) for part in (first, last))
            parts.append(f"{name} {before:,.0f} -> {after:,.0f}")
        hours = [sample.at_s / 3600 for sample in self._samples]
        slope = statistics.linear_regression(hours, [sample.rss_mib for sample in self._samples]).slope
        peak = max(sample.rss_mib for sample in self._samples)
        return f"{', '.join(parts)}; RSS peak {peak:,.0f} MiB, slope {slope:+,.0f} MiB an hour over {len(self._samples)} samples"
