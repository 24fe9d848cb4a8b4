"""The faults that are a point in the code: the process that comes there dies, as by kill -9."""

from __future__ import annotations

import json
import random

from tests.integration.records import commit, create, end_offset, rows, write
from tests.soak.hooks.sitecustomize import DEAD, POINTS
from tests.soak.stage import Fault, Stage
from tests.waiting import eventually

DIES_WITHIN_S = 60.0
FOLLOWED_WITHIN_S = 90.0
WITH_TOPICS = ("before a topic is created", "when a topic is created")
RARELY = (*WITH_TOPICS, "when the offset map is written")
OFTEN = ("before a batch is sent", "while a batch is in flight")  # some twenty times a second


def _die_at(stage: Stage, point: str, dice: random.Random) -> None:
    stage.dies_at.with_suffix(DEAD).unlink(missing_ok=True)
    passes = 1 if point in RARELY else dice.randint(1, 40 if point in OFTEN else 3)
    file = stage.dies_at.with_suffix(".new")
    file.write_text(json.dumps({"point": point, "passes": passes, "moment_s": dice.uniform(0, 0.005)}))
    file.rename(stage.dies_at)


def _await_death(stage: Stage, point: str) -> None:
    """The driver comes by some points too, of those about commits at its own: then nobody else starts it again."""
    try:
        dead = eventually(lambda: _dead(stage), within_s=DIES_WITHIN_S, because=f"somebody dies {point}")
    finally:
        stage.dies_at.unlink(missing_ok=True)  # or a later round would meet it
    driver = stage.appliance.process
    assert driver is not None
    if dead == driver.pid:
        driver.wait(10)
        stage.appliance.start()


def _dead(stage: Stage) -> int | None:
    """Who has died, as soon as it has left its id."""
    file = stage.dies_at.with_suffix(DEAD)
    text = file.read_text() if file.exists() else ""
    return int(text) if text.isdigit() else None


def _somebody_dies(point: str) -> Fault:
    def strike(stage: Stage, dice: random.Random) -> None:
        _die_at(stage, point, dice)
        _await_death(stage, point)

    return strike


def _dies_with_checkpoints(stage: Stage, dice: random.Random) -> None:
    """A group has moved on, so that there is something to write."""
    commit(stage.source, stage.group, stage.topic, dice.randint(1, 50))
    _somebody_dies("when checkpoints are written")(stage, dice)


def _dies_with_topics(point: str) -> Fault:
    """Topics appear; whatever became of them when the driver died, they are replicated."""

    def strike(stage: Stage, dice: random.Random) -> None:
        _die_at(stage, point, dice)
        for number in range(dice.randint(1, 3)):
            topic = f"{stage.topic}-more-{number}"
            create(stage.source, topic, 3)
            write(stage.source, topic, rows(20), 2)
        _await_death(stage, point)
        eventually(
            lambda: end_offset(stage.target, f"primary.{topic}", 2) >= 20,
            within_s=FOLLOWED_WITHIN_S,
            because=f"{topic} is replicated all the same",
        )

    return strike


def _fault(point: str) -> Fault:
    if point == "when checkpoints are written":
        return _dies_with_checkpoints
    return _dies_with_topics(point) if point in WITH_TOPICS else _somebody_dies(point)


KILL_POINTS = {f"die {point}": _fault(point) for point in POINTS}
