"""Say how soon a broker is asked again: each fetch costs it time for every topic-partition of the session. Pure.

Measured in docs/adr/0040-fetches-of-many-have-a-pace.md.
"""

from __future__ import annotations

FREE = 20  # topic-partitions that are asked for at once again
EACH_S = 1e-4  # for each one more
SMALL_BYTES = 64 << 10  # a fetch that brings more is worth what it costs: that is how one catches up


def fetch_delay_s(topic_partitions: int, received_bytes: int) -> float:
    """Return how long (s) to wait after a fetch of so many topic-partitions that brought so much, before the next one.

    A fetch that brought nothing has waited at the broker.
    """
    return max(0, topic_partitions - FREE) * EACH_S if 0 < received_bytes <= SMALL_BYTES else 0.0
