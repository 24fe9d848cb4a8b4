"""Define the input and the result of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metrics.partition_status import Sample
from mirror.model.topic_partition import TopicPartition
from mirror.switching.journal import Journal
from mirror.switching.run import SwitchRun
from mirror.switching.scope import Scope


@dataclass(slots=True)
class StepResult:
    """The result of a step, for a person and for programs."""

    said: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """The input of a step.

    Attributes:
        scope: What is switched.
        run: The run before the step, with the facts that an attempt recorded before a crash.
        journal: Writes facts to the journal before a change.
        within_s: How long a step waits for producers, consumers or the mirror.
        window_ms: Length of the mirror's windows.
        folder: Folder for texts that are too long for the journal.
        seen: The last poll of each partition by the mirror's process, by remote topic and partition, as far as this machine has
        it. say: Prints progress.
    """

    scope: Scope
    run: SwitchRun
    journal: Journal
    within_s: float
    window_ms: int
    folder: Path
    seen: Mapping[TopicPartition, Sample]
    say: Callable[[str], None]
