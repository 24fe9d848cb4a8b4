"""Keep the last polls of each partition; its status is derived from them."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Collection
from pathlib import Path

from metrics import whole_file
from metrics.partition_status import WINDOW, Sample

Key = tuple[str, ...]
HISTORY_FILE = "history.json"  # in the state folder


class History:
    """The last polls of each partition.

    A file keeps them, so that a status survives a restart. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samples: dict[Key, deque[Sample]] = {}

    def add(self, key: Key, sample: Sample) -> None:
        """Add one poll."""
        with self._lock:
            self._samples.setdefault(key, deque(maxlen=WINDOW)).append(sample)

    def of(self, key: Key) -> list[Sample]:
        """Return the polls of one partition, oldest first."""
        with self._lock:
            return list(self._samples.get(key, ()))

    def known(self) -> list[Key]:
        """Return the keys of the partitions whose polls are kept."""
        with self._lock:
            return list(self._samples)

    def keep_only(self, keys: Collection[Key]) -> None:
        """Forget partitions that left their flow."""
        wanted = set(keys)
        with self._lock:
            self._samples = {key: samples for key, samples in self._samples.items() if key in wanted}

    def save(self, path: Path) -> None:
        """Write to a file atomically."""
        with self._lock:
            rows = [(key, list(samples)) for key, samples in self._samples.items()]
        whole_file.write(path, json.dumps(rows, separators=(",", ":")))

    def load(self, path: Path, *, within_s: tuple[float, float] | None = None) -> None:
        """Read a file that `save` wrote; ignore a damaged file.

        Args:
            path: The file.
            within_s: First and last time (epoch seconds) of the polls to keep; None: all polls. Older polls are outdated; later
                polls were made while the clock was ahead.
        """
        try:
            rows = json.loads(path.read_text())
            for key, samples in rows:
                for time_s, position, end, lost, start, position_s in samples:
                    if within_s is None or within_s[0] <= time_s <= within_s[1]:
                        sample = Sample(
                            float(time_s), int(position), int(end), int(lost), int(start), float(position_s)
                        )
                        self.add(tuple(key), sample)
        except FileNotFoundError:
            return
        except (ValueError, TypeError):
            self._samples.clear()
