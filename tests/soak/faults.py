"""What is done to a stage. Each fault is over when its function returns; what is chance in it, the dice decide."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable

from mirror.embedded.broker import Broker
from mirror.errors import ClusterUnavailable
from mirror.kafka.cluster import Cluster
from tests.fault_proxy import FaultProxy
from tests.integration.appliance import signal_all
from tests.integration.coordinators import restart_killed
from tests.integration.records import create, rows, write
from tests.soak.kill_points import KILL_POINTS
from tests.soak.stage import Fault, Stage
from tests.soak.state_faults import OF_STATE
from tests.soak.trio import Trio
from tests.waiting import eventually

WORKERS_WITHIN_S = 150.0
SHARED_WITHIN_S = 60.0
ALONE_WITHIN_S = 90.0


def _kill_one_worker(stage: Stage, dice: random.Random) -> None:
    # There is none for a moment when the last one to be killed was the daemon that forks them.
    workers = eventually(stage.appliance.workers, within_s=WORKERS_WITHIN_S, because="Spark starts workers")
    signal_all([dice.choice(workers)], signal.SIGKILL)


def _kill_workers(stage: Stage, _: random.Random) -> None:
    signal_all(stage.appliance.workers(), signal.SIGKILL)


def _kill_jvm(stage: Stage, _: random.Random) -> None:
    """The appliance cannot go on without it: it says so, with a status that asks to be started again."""
    assert stage.appliance.process is not None
    signal_all([stage.appliance.jvm()], signal.SIGKILL)
    assert stage.appliance.process.wait(60) == 4
    assert "Spark" in stage.appliance.log.read_text().rstrip().rpartition("\n")[2]
    stage.appliance.start()


def _kill_appliance(stage: Stage, _: random.Random) -> None:
    stage.appliance.kill_all()
    stage.appliance.start()


def _restart_appliance(stage: Stage, _: random.Random) -> None:
    stage.appliance.stop()
    stage.appliance.start()


def _sleep(stage: Stage, dice: random.Random) -> None:
    """Stop the whole appliance for longer than its window, and its session, or shorter; then let it go on."""
    with stage.appliance.frozen():
        time.sleep(dice.uniform(1, 12))


def _sleep_beside_another(stage: Stage, dice: random.Random) -> None:
    """Let another process join, stop one of the two until long after the other has its slots, and let it go on beside it."""
    other, own = stage.another(), stage.appliance
    other.start()
    eventually(lambda: other.slots() == 1, within_s=SHARED_WITHIN_S, because="the slots are shared")
    with (own if dice.random() < 0.5 else other).frozen():
        time.sleep(dice.uniform(5, 60))
    eventually(
        lambda: own.slots() == other.slots() == 1, within_s=SHARED_WITHIN_S, because="the slots are shared again"
    )
    other.stop()


def _slow_disk(side: str) -> Fault:
    """A broker that stops for a tenth of a second again and again, as one whose disk does not keep up."""

    def strike(stage: Stage, dice: random.Random) -> None:
        cluster = getattr(stage, side)
        until = time.monotonic() + dice.uniform(8, 20)
        while time.monotonic() < until:
            cluster.pause()
            time.sleep(dice.uniform(0.05, 0.4))
            cluster.resume()
            time.sleep(dice.uniform(0.05, 0.2))

    return strike


def _kill_one_of_two(stage: Stage, dice: random.Random) -> None:
    """Let another process join and share the slots; kill one of the two. The other one is the stage's from then on."""
    stayed, gone = stage.another(), stage.appliance
    stayed.start()
    eventually(lambda: stayed.slots() == 1, within_s=SHARED_WITHIN_S, because="the slots are shared")
    if dice.random() < 0.5:
        stayed, gone = gone, stayed
    gone.kill_all()
    stage.appliance = stayed


def _broker(side: str, fault: str) -> Fault:
    def strike(stage: Stage, dice: random.Random) -> None:
        broker: Broker = getattr(stage, side)
        if fault == "freeze":
            broker.pause()
            time.sleep(dice.uniform(1, 10))
            broker.resume()
            return
        if fault == "kill":
            broker.kill()
            revive(broker)
        else:
            broker.restart()

    return strike


def revive(cluster: Broker | Trio) -> None:
    """Restart what was killed, and see that it coordinates groups."""
    if isinstance(cluster, Broker):
        restart_killed(cluster)
    else:
        cluster.restart()


def _leaderless(side: str) -> Fault:
    """Beside the round's topic is one whose only broker dies: the slot that both share must go on."""

    def strike(stage: Stage, dice: random.Random) -> None:
        struck = getattr(stage, side)
        assert isinstance(struck, Trio)
        node, topic = dice.choice((2, 3)), f"{stage.topic}-alone"
        if side == "target":
            struck.alone(f"primary.{topic}", node)
            create(stage.source, topic, replicas=stage.replicas)
        else:
            struck.alone(topic, node)
        write(stage.source, topic, rows(50))
        stage.appliance.refresh()
        remote = f"primary.{topic}"
        eventually(lambda: has_records(stage.target, remote, 50), within_s=ALONE_WITHIN_S, because="it is mirrored too")
        struck.kill_node(node)
        if side == "target":
            write(stage.source, topic, rows(50, start=50))  # waits for the leader that there is not
        time.sleep(dice.uniform(5, 20))
        struck.restart()

    return strike


def has_records(cluster: Trio | Broker, topic: str, count: int) -> bool:
    """Tell whether a topic is there, and its first topic-partition has so many records."""
    admin = Cluster("soak", {"bootstrap.servers": cluster.bootstrap})
    try:
        return admin.end_offsets([(topic, 0)], read_committed=False).get((topic, 0), 0) >= count
    except ClusterUnavailable:  # as it says of a topic that is not there yet
        return False


def _stall(link: FaultProxy, dice: random.Random) -> None:
    link.is_stalled = True
    time.sleep(dice.uniform(1, 10))


def _cut_off(link: FaultProxy, dice: random.Random) -> None:
    link.is_down = True
    link.reset_all()
    time.sleep(dice.uniform(1, 10))


def _reset(link: FaultProxy, dice: random.Random) -> None:
    for _ in range(5):
        link.reset_all()
        time.sleep(dice.uniform(0.1, 1.5))


def _forget(link: FaultProxy, _: random.Random) -> None:
    link.half_open_all()


def _crawl(link: FaultProxy, dice: random.Random) -> None:
    link.delay_s, link.bytes_per_s = (0.1, 0.2), 128 << 10
    time.sleep(dice.uniform(4, 10))


def _slice(link: FaultProxy, _: random.Random) -> None:
    link.slice_bytes = 7
    time.sleep(4)


def _lose_packets(link: FaultProxy, dice: random.Random) -> None:
    """For longer than a window is waited for."""
    link.drop_packets()
    time.sleep(dice.uniform(20, 60))


def _network(side: str, worsen: Callable[[FaultProxy, random.Random], None]) -> Fault:
    def strike(stage: Stage, dice: random.Random) -> None:
        worsen(stage.links[side], dice)
        stage.links[side].heal()

    return strike


def outage(side: str, minutes: float) -> Fault:
    """A cluster that is down for so long."""

    def strike(stage: Stage, _: random.Random) -> None:
        broker: Broker = getattr(stage, side)
        broker.kill()
        time.sleep(minutes * 60)
        revive(broker)

    return strike


NETWORKS: dict[str, Fault] = {
    "stall the source's network": _network("source", _stall),
    "stall the target's network": _network("target", _stall),
    "cut the source off": _network("source", _cut_off),
    "cut the target off": _network("target", _cut_off),
    "reset the source's connections": _network("source", _reset),
    "reset the target's connections": _network("target", _reset),
    "half-open connections to the source": _network("source", _forget),
    "half-open connections to the target": _network("target", _forget),
    "a slow link to the source": _network("source", _crawl),
    "a slow link to the target": _network("target", _crawl),
    "seven bytes at a time from the source": _network("source", _slice),
    "seven bytes at a time to the target": _network("target", _slice),
    "cut off the source": _network("source", _lose_packets),
    "cut off the target": _network("target", _lose_packets),
}
OF_TRIOS: dict[str, Fault] = {
    "leave a topic of the source without a leader": _leaderless("source"),
    "leave a topic of the target without a leader": _leaderless("target"),
}
FAULTS: dict[str, Fault] = {
    "kill -9 one worker": _kill_one_worker,
    "kill -9 all workers": _kill_workers,
    "kill -9 the JVM": _kill_jvm,
    "kill -9 the mirror": _kill_appliance,
    "restart the mirror": _restart_appliance,
    "suspend the mirror, then resume it": _sleep,
    "let a second process join, kill -9 one of the two": _kill_one_of_two,
    "let a second process join, stop one of the two for 5 to 60 s": _sleep_beside_another,
    "restart the source": _broker("source", "restart"),
    "restart the target": _broker("target", "restart"),
    "kill -9 the source": _broker("source", "kill"),
    "kill -9 the target": _broker("target", "kill"),
    "freeze the source": _broker("source", "freeze"),
    "freeze the target": _broker("target", "freeze"),
    "a slow disk under the source": _slow_disk("source"),
    "a slow disk under the target": _slow_disk("target"),
    **NETWORKS,
    **KILL_POINTS,
    **OF_STATE,
}
