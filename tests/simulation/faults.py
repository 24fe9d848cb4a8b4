"""The kinds of faults. Each draws its victims and its times from the seed, and schedules its own end.

Out of bounds are the exceptions of docs/guarantees.md, "What is not promised": sequence numbers that a broker has forgotten,
repartitioned topics, topics that are deleted, logs of the source that were truncated, a group coordinator that never recovers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from mirror.model.flow_plan import OFFSET_MAP_TOPIC
from tests.simulation.cluster import Broker, Cluster
from tests.simulation.log import PartitionLog
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.scenario import Stage

MOST_FAULTS = 14
BETWEEN_S = (0.0, 4.0)
LONGEST_HANG_S = 6.0  # of a broker, less than mirror.replication.delivery.ARRIVES_S
LONGEST_FREEZE_S = 90.0  # of a worker
LONGEST_STEP_S = 150.0  # of a wall clock
CHANGES = 6  # of the mode, among the kinds of faults
STEPS = (0, 400)  # callbacks until a kill: some hundredths of a second up to seconds

Fault = Callable[["Stage"], None]


def play(stage: Stage) -> None:
    """Play the faults of a run."""
    dice = stage.dice
    kinds = (*KINDS, *[_change_mode] * CHANGES) if stage.changes_mode else KINDS
    for _ in range(dice.randint(1, MOST_FAULTS)):
        kind = dice.choice(kinds)
        stage.counts[kind.__name__.lstrip("_")] += 1
        kind(stage)
        stage.world.run_for(dice.uniform(*BETWEEN_S))


def heal(stage: Stage) -> None:
    """End all faults, and have at least one process run."""
    stage.world.note("calm")
    stage.is_calm = True
    stage.network.blocked.clear()
    stage.network.block([])
    for cluster in (stage.source, stage.target):
        for broker in cluster.brokers.values():
            broker.start()
            broker.delay_s, broker.cut_chance = None, 0.0
            broker.hangs_until_s = 0.0
        for log in cluster.logs.values():
            log.replication_s = 0.0
            if log.leader is None:
                cluster.move_leader(log, stage.dice.choice(cluster.alive()))
            cluster.appended(log)
    for process in stage.alive():
        process.wake()
    if not stage.alive():
        stage.start(stage.dice.choice(("folder1", "folder2")))


# --- processes ---------------------------------------------------------------------------------------------------------


def _kill(stage: Stage) -> None:
    """Kill a process between any two of its callbacks; it starts again, from its folder or elsewhere."""
    if victim := _victim(stage):
        victim.kill_after(stage.dice.randint(*STEPS))
        _start_later(stage)


def _kill_worker(stage: Stage) -> None:
    """Kill one worker; Spark tries its task again."""
    if victim := _victim(stage):
        victim.kill_worker(stage.dice.randrange(16), after_steps=stage.dice.randint(*STEPS))


def _hang_worker(stage: Stage) -> None:
    """Freeze one worker; its driver does not know why the window does not end."""
    if victim := _victim(stage):
        victim.hang_worker(stage.dice.randrange(16), _log_uniform(stage, 0.05, LONGEST_FREEZE_S))


def _stop(stage: Stage) -> None:
    """Stop a process as an operator does, and start one again."""
    if victim := _victim(stage):
        victim.stop()
        _start_later(stage)


def _start(stage: Stage) -> None:
    """Start one more process."""
    if len(stage.alive()) < 3:
        stage.start(f"folder{stage.dice.randint(1, 3)}x{stage.dice.randint(1, 9)}")


def _change_mode(stage: Stage) -> None:
    """Kill or stop all processes, and start one in the other mode, from its folder or elsewhere."""
    is_kill = stage.dice.random() < 0.7
    for process in stage.processes:
        if not process.is_dead and (is_kill or process.is_frozen):
            process.kill()
        elif not process.is_dead:
            process.stop()
    if not is_kill:
        stage.world.run_for(25.0)  # they have ended by then
    stage.change_mode()
    folder = stage.dice.choice(("folder1", "folder2", f"folder{stage.dice.randint(3, 9)}"))
    stage.world.run_for(stage.dice.uniform(0.0, 8.0))
    stage.start(folder)


def _forget_positions(stage: Stage) -> None:
    """Have the target forget positions: they expire one by one or all at once, or an operator deletes the group."""
    group = stage.target.group(stage.plan.group)
    chance = stage.dice.choice((0.3, 1.0, None))
    if chance is None:
        # Before the offset map has a record, nothing but the group shows that the flow has begun.
        if stage.target.logs[OFFSET_MAP_TOPIC.format(source="A"), 0].end:
            stage.delete_group()
        return
    for place in list(group.offsets):
        if "internal" not in place[0] and stage.dice.random() < chance:
            del group.offsets[place]
            stage.has_lost_positions = True
    stage.world.note("positions are forgotten")


def _freeze(stage: Stage) -> None:
    """Freeze a process, as SIGSTOP does; the kernel goes on with its connections."""
    if victim := _victim(stage):
        _freeze_for(stage, victim, _log_uniform(stage, 0.02, 40.0))


def _suspend(stage: Stage) -> None:
    """Suspend a machine: what its kernel has not sent yet arrives when it wakes."""
    if victim := _victim(stage):
        seconds = _log_uniform(stage, 0.02, 40.0)
        _block(stage, victim, [*_brokers(stage.source), *_brokers(stage.target)], seconds)
        _freeze_for(stage, victim, seconds)


def _set_clock(stage: Stage) -> None:
    """Set the wall clock of a process forward."""
    if victim := _victim(stage):
        ahead_s = stage.world.ahead_s
        ahead_s[victim.name] = ahead_s.get(victim.name, 0.0) + _log_uniform(stage, 0.05, LONGEST_STEP_S)
        stage.world.note(f"the clock of {victim.name} is {ahead_s[victim.name]:.2f} s ahead")


def _freeze_for(stage: Stage, victim: Process, seconds: float) -> None:
    if victim.is_frozen:
        return
    victim.freeze()

    def wake() -> None:
        if victim.is_frozen and not victim.is_dead:
            victim.wake()

    stage.world.after(seconds, wake)


def _victim(stage: Stage) -> Process | None:
    alive = stage.alive()
    return stage.dice.choice(alive) if alive else None


def _start_later(stage: Stage) -> None:
    folder = stage.dice.choice(("folder1", "folder2", f"folder{stage.dice.randint(3, 9)}"))

    def start() -> None:
        if len(stage.alive()) < 3:
            stage.start(folder)

    stage.world.after(stage.dice.uniform(0.2, 8), start)


# --- the network -------------------------------------------------------------------------------------------------------


def _partition(stage: Stage) -> None:
    """Cut a process off from a cluster, or from one broker."""
    if victim := _victim(stage):
        cluster = _cluster(stage)
        brokers = _brokers(cluster)
        if stage.dice.random() < 0.5:
            brokers = [stage.dice.choice(brokers)]
        _block(stage, victim, brokers, _log_uniform(stage, 0.05, 30.0))


def _reset(stage: Stage) -> None:
    """End connections."""
    chance = stage.dice.random()
    for broker in _brokers(_cluster(stage)):
        broker.reset_links(chance)


def _cut_answers(stage: Stage) -> None:
    """Have connections end in place of some answers: the request was done."""
    broker = stage.dice.choice(_brokers(_cluster(stage)))
    broker.cut_chance = _log_uniform(stage, 0.02, 0.8)
    stage.world.after(stage.dice.uniform(0.5, 8), lambda: setattr(broker, "cut_chance", 0.0))


def _block(stage: Stage, victim: Process, brokers: list[Broker], seconds: float) -> None:
    paths = [(victim.name, broker.name) for broker in brokers]
    stage.world.note(f"blocked for {seconds:.2f} s: {paths}")
    stage.network.block(paths)

    def unblock() -> None:
        if not stage.is_calm:
            stage.network.unblock(paths)

    stage.world.after(seconds, unblock)


# --- brokers -----------------------------------------------------------------------------------------------------------


def _delay(stage: Stage) -> None:
    """Have a broker begin late, and answer late."""
    broker = stage.dice.choice(_brokers(_cluster(stage)))
    broker.delay_s = (0.0, _log_uniform(stage, 0.01, 2.5))
    stage.world.after(stage.dice.uniform(0.5, 10), lambda: setattr(broker, "delay_s", None))


def _hang(stage: Stage) -> None:
    """Have a broker do nothing for a while, then all that it has received."""
    broker = stage.dice.choice(_brokers(_cluster(stage)))
    seconds = _log_uniform(stage, 0.05, LONGEST_HANG_S)
    stage.world.note(f"{broker.name} hangs for {seconds:.2f} s")
    broker.hangs_until_s = stage.world.now_s + seconds


def _move_leaders(stage: Stage) -> None:
    """Move leaders of topic-partitions to other brokers."""
    cluster = _cluster(stage)
    for log in _some_logs(stage, cluster):
        if alive := cluster.alive():
            cluster.move_leader(log, stage.dice.choice(alive), truncates=_may_truncate(stage, cluster))


def _lose_leaders(stage: Stage) -> None:
    """Leave topic-partitions without a leader for a while."""
    cluster = _cluster(stage)
    for log in _some_logs(stage, cluster):
        cluster.move_leader(log, None)
        stage.world.after(_log_uniform(stage, 0.05, 20), lambda log=log: _elect(stage, cluster, log))  # type: ignore[misc]


def _slow_replicas(stage: Stage) -> None:
    """Have replicas follow late; a leader that moves meanwhile may lose what they lack."""
    for log in _some_logs(stage, stage.target):
        log.replication_s = _log_uniform(stage, 0.01, 12)
        stage.world.after(stage.dice.uniform(1, 10), lambda log=log: setattr(log, "replication_s", 0.0))  # type: ignore[misc]
        if stage.dice.random() < 0.4:
            stage.world.after(stage.dice.uniform(0, 10), lambda log=log: _elect(stage, stage.target, log, is_new=True))  # type: ignore[misc]


def _stop_broker(stage: Stage) -> None:
    """Stop a broker; others lead what it led, after a moment, until it is back and longer."""
    cluster = _cluster(stage)
    if len(cluster.alive()) < 2:
        return
    broker = cluster.brokers[stage.dice.choice(cluster.alive())]
    stage.world.note(f"{broker.name} stops")
    broker.stop()
    elected_s = stage.dice.choice((0.05, 0.5, 9.0))
    for log in cluster.logs.values():
        if log.leader == broker.node:
            stage.world.after(elected_s * stage.dice.random(), lambda log=log: _elect(stage, cluster, log, is_new=True))  # type: ignore[misc]

    def start() -> None:
        stage.world.note(f"{broker.name} starts")
        broker.start()

    stage.world.after(_log_uniform(stage, 0.1, 20), start)


def _elect(stage: Stage, cluster: Cluster, log: PartitionLog, *, is_new: bool = False) -> None:
    if log.leader is None or is_new:
        alive = cluster.alive()
        leader = stage.dice.choice(alive) if alive else None
        cluster.move_leader(log, leader, truncates=_may_truncate(stage, cluster))


def _may_truncate(stage: Stage, cluster: Cluster) -> bool:
    return cluster is stage.target and stage.dice.random() < 0.5


def _cluster(stage: Stage) -> Cluster:
    return stage.target if stage.dice.random() < 0.7 else stage.source


def _brokers(cluster: Cluster) -> list[Broker]:
    return list(cluster.brokers.values())


def _some_logs(stage: Stage, cluster: Cluster) -> list[PartitionLog]:
    chance = stage.dice.random()
    return [log for (topic, _), log in cluster.logs.items() if "internal" not in topic and stage.dice.random() < chance]


def _log_uniform(stage: Stage, low: float, high: float) -> float:
    return math.exp(stage.dice.uniform(math.log(low), math.log(high)))


KINDS: tuple[Fault, ...] = (
    _kill,
    _kill,
    _kill_worker,
    _kill_worker,
    _hang_worker,
    _stop,
    _start,
    _forget_positions,
    _freeze,
    _freeze,
    _suspend,
    _set_clock,
    _partition,
    _partition,
    _reset,
    _cut_answers,
    _delay,
    _hang,
    _move_leaders,
    _lose_leaders,
    _slow_replicas,
    _stop_broker,
)
