"""Find groups without members that read on the source, by their offsets. Pure.

A consumer that assigns partitions itself (Flink, Spark, a sink connector) may commit offsets to a group that has no members. If
such offsets move, the group reads.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping

from mirror.kafka.groups import Group, is_idle

LOOK = "look"  # a fact of the step FENCE: the result of `look` when the step started

Look = Mapping[str, int]


def look(groups: Iterable[Group], concerns: Callable[[str], bool]) -> Look:
    """Return, for each group without members, a checksum of its offsets on topics of `concerns`."""
    return {
        group.name: zlib.crc32(json.dumps(sorted(at for at in group.offsets.items() if concerns(at[0][0]))).encode())
        for group in groups
        if is_idle(group.state)
    }


def moved_between(before: Look, now: Look) -> set[str]:
    """Return the groups whose offsets have moved between two results of `look`."""
    return {name for name, checksum in now.items() if before.get(name, checksum) != checksum}
