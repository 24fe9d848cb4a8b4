"""Take the end of a log from a broker that was killed, as a power cut does."""

from __future__ import annotations

from mirror.embedded.broker import Broker
from mirror.model.record_batches import batches


def cut(broker: Broker, topic: str, partition: int = 0, *, least: int = 3) -> int:
    """Take at least so many of the last batches from a log, as far as it has them; return how many records went.

    Whole transactions: one that has lost its marker alone would never end, and an operator has to abort it.
    """
    folder = broker.data_dir / "data" / f"{topic}-{partition}"
    segment = max(folder.glob("*.log"))
    data = segment.read_bytes()
    left, gone = list(batches(data)), []
    while left and (len(gone) < least or (left[-1].is_transactional and not left[-1].is_control)):
        gone.append(left.pop())
    segment.write_bytes(data[: sum(len(batch.data) for batch in left)])
    for file in (*folder.glob("*index"), *folder.glob("*.snapshot")):
        file.unlink()
    return sum(batch.count for batch in gone if not batch.is_control)
