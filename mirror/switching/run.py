"""Keep the record of one switch as JSON: its steps in order, their results, its conductor. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any

MOVING = "moving"  # a fact of the step GROUPS: the first group may have been moved


class Kind(Enum):
    """The purpose of a run: the word of its command."""

    SWITCH = "switch"  # with a reverse flow
    MIGRATE = "migrate"  # without a reverse flow
    SWITCH_BACK = "switch-back"
    FAIL_OVER = "fail-over"  # the source is lost


class Step(Enum):
    """A step; STEPS has the order of each kind."""

    GAP = "gap"
    FENCE = "fence"
    DRAIN = "drain"
    VERIFY = "verify"
    SETTINGS = "settings"
    TAIL = "tail"
    GROUPS = "groups"
    PAUSE = "pause"
    REVERSE = "reverse"
    OPEN = "open"


_PLANNED = (Step.FENCE, Step.DRAIN, Step.VERIFY, Step.SETTINGS)
_OVER = (Step.GROUPS, Step.PAUSE, Step.REVERSE, Step.OPEN)
STEPS: Mapping[Kind, tuple[Step, ...]] = {
    Kind.SWITCH: (*_PLANNED, *_OVER),
    Kind.MIGRATE: (*_PLANNED, Step.GROUPS, Step.PAUSE),
    Kind.SWITCH_BACK: (*_PLANNED, Step.TAIL, *_OVER),
    Kind.FAIL_OVER: (Step.GAP, Step.GROUPS, Step.PAUSE, Step.OPEN),
}


class StepState(Enum):
    """WAITING -> RUNNING -> DONE or FAILED. A FAILED step runs again. An abort makes done steps UNDONE."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    UNDONE = "undone"


class RunState(Enum):
    """The state of a whole run."""

    OPEN = "not ended"
    DONE = "done"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """The result of a step. Times are epoch seconds. `said` is for a person, `facts` are for programs."""

    state: StepState = StepState.WAITING
    began_s: float | None = None
    ended_s: float | None = None
    said: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def took_s(self) -> float | None:
        """Duration of the step, None while it has not ended."""
        return None if self.began_s is None or self.ended_s is None else self.ended_s - self.began_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRun:
    """One switch of a flow.

    `topics` and `groups` are pattern lists, "" for all of the flow. `version` is the version of kafka-mirror. `without` are
    topics that an operator leaves out.
    """

    id: str
    flow: str
    kind: Kind
    topics: str
    groups: str
    last: int  # records per partition to verify
    by: str
    version: str
    began_s: float
    is_aborted: bool = False
    without: tuple[str, ...] = ()
    steps: Mapping[Step, StepRecord] = field(default_factory=dict)

    def step(self, step: Step) -> StepRecord:
        """Return the record of a step."""
        return self.steps.get(step, StepRecord())

    def with_step(self, step: Step, **changes: Any) -> SwitchRun:
        """Return the run with a changed step."""
        return replace(self, steps={**self.steps, step: replace(self.step(step), **changes)})

    @property
    def state(self) -> RunState:
        """The state of the whole run."""
        if self.is_aborted:
            return RunState.ABORTED
        return RunState.DONE if self.next is None else RunState.OPEN

    @property
    def next(self) -> Step | None:
        """The first step that is not done, None if all are done."""
        return next((step for step in STEPS[self.kind] if self.step(step).state is not StepState.DONE), None)

    @property
    def may_abort(self) -> bool:
        """True if all steps can be reverted, which holds until the first group is moved."""
        groups = self.step(Step.GROUPS)
        return not self.is_aborted and groups.state is not StepState.DONE and MOVING not in groups.facts

    def text(self) -> str:
        """Return the run as JSON."""
        steps = {
            step.value: {**asdict(record), "state": record.state.value}
            for step in Step
            if (record := self.steps.get(step)) is not None
        }
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in ("kind", "steps")}
        return json.dumps({**plain, "kind": self.kind.value, "state": self.state.value, "steps": steps}, indent=1)

    @classmethod
    def parse(cls, text: str) -> SwitchRun:
        """Parse `text`.

        Raises:
            ValueError: the text is not a run.
        """
        try:
            found = json.loads(text)
            del found["state"]  # it follows from the rest
            steps = {
                Step(name): StepRecord(**{**record, "state": StepState(record["state"]), "said": tuple(record["said"])})
                for name, record in found.pop("steps").items()
            }
            kind, without = Kind(found["kind"]), tuple(found.get("without", ()))
            return cls(**{**found, "kind": kind, "without": without, "steps": steps})
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no run of a switch: {error!r}") from error
