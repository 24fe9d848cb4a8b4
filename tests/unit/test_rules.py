"""The rules by promtool: each alert fires, stays silent where it must, and reads only families that exist."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from dashboards.alerts import NO_WAY, alerts
from dashboards.build import FOLDER, build, files, rules, stale
from dashboards.monitoring import Monitoring
from dashboards.queries import HEALTHY
from dashboards.recording import recording
from metrics.catalogue import BY_NAME, CATALOGUE
from mirror.checkpoints.rules import State
from tests.series import series_names

# One worker runs promtool for all scenes.
pytestmark = pytest.mark.xdist_group("rules")

ROOT = Path(__file__).resolve().parents[2]
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed"
)

PARTITION = '{source="a",target="b",topic="a.t",partition="0"}'
TOPIC = '{source="a",target="b",topic="a.t"}'
FLOW = '{source="a",target="b"}'
ANOTHER = '{source="a",target="b",instance="2"}'
RULES = f"{FOLDER}/kafka-mirror.rules.yml"
K = "kafka_mirror_"
OF_JOB = 'job="kafka-mirror",instance="1"'


def moving(lag: str, copied: str = "0+600x180", produced: str = "0+600x180") -> dict[str, str]:
    """One topic-partition, a sample a minute: its lag, records copied, and log-end offset."""
    return {
        f"{K}lag_records{PARTITION}": lag,
        f"{K}record_count_total{PARTITION}": copied,
        f"{K}source_end_offset{PARTITION}": produced,
    }


SLOT = '{source="a",target="b",slot="0"}'
GROUP = '{source="a",target="b",group="g"}'
CLUSTER = '{source="a",target="b",cluster="a"}'
CLOCK_OF_A = f"{K}cluster_clock_skew_seconds{CLUSTER}"
DAY_OF_BLIPS = " ".join(["0x1 100x97"] * 16)  # none fresh in two minutes of every hundred


def expiring(headroom: str, lag: str) -> dict[str, str]:
    """One topic: how long retention leaves its first waiting record, and how long that waits already."""
    return {
        f"{K}retention_headroom_seconds{TOPIC}": headroom,
        f"{K}lag_seconds{PARTITION}": lag,
    }


def fresh(count: str, expected: str, *, process: str = "1") -> dict[str, str]:
    """How many topic-partitions of a flow one process knows to be fresh, and how many there are."""
    labels = f'{{source="a",target="b",instance="{process}"}}'
    return {f"{K}fresh_partitions{labels}": count, f"{K}expected_partitions{labels}": expected}


def waits(lag: str, until: str = "", expected: str = "1x600") -> dict[str, str]:
    """One topic-partition: its time lag as it is exported, up to when it is replicated, and whether anybody tells of its flow."""
    series = {f"{K}lag_seconds{PARTITION}": lag, f"{K}expected_partitions{FLOW}": expected}
    return {**series, **({f"{K}replicated_until_timestamp_seconds{PARTITION}": until} if until else {})}


def lost(count: str, started: str) -> dict[str, str]:
    """What one process has counted as lost in a topic-partition, and when that process has started."""
    labels = f'{{{OF_JOB},source="a",target="b",topic="a.t",partition="0"}}'
    return {f"{K}records_lost_total{labels}": count, f"process_start_time_seconds{{{OF_JOB}}}": started}


def statuses(status: str, count: str) -> dict[str, str]:
    """How many topic-partitions of a flow have a verdict."""
    return {f'{K}partitions{{source="a",target="b",status="{status}"}}': count}


def offsets(state: str, count: str) -> dict[str, str]:
    """How many topic-partitions one group has in a state."""
    return {f'{K}group_partitions{{source="a",target="b",group="g",state="{state}"}}': count}


class Scene(NamedTuple):
    """What happens, and whether the alert fires in a minute of it; series by name, a sample a minute."""

    what: str
    minute: int
    series: dict[str, str]
    fires: bool


def fires(what: str, minute: int, series: dict[str, str]) -> Scene:
    return Scene(what, minute, series, fires=True)


def silent(what: str, minute: int, series: dict[str, str]) -> Scene:
    return Scene(what, minute, series, fires=False)


SCENES: dict[str, list[Scene]] = {
    "KafkaMirrorDown": [
        fires("no target at all", 5, {}),
        fires("the only one is down", 20, {f"{K}flow_info{FLOW}": "1x10 _x60"}),
        fires(
            "and a verify process lives in the same job",
            20,
            {
                f"{K}flow_info{FLOW}": "1x10 _x60",
                f"{K}last_verify_timestamp_seconds{FLOW}": "0+60x60",
                'up{job="kafka-mirror",instance="verify"}': "1x60",
            },
        ),
        silent("one of two is up", 30, {f"{K}flow_info{FLOW}": "1x10 _x60", f"{K}flow_info{ANOTHER}": "1x60"}),
        silent("a blip of two minutes", 13, {f"{K}flow_info{FLOW}": "1x10 _ _ 1x60"}),
    ],
    "KafkaMirrorFlowGone": [
        fires(
            "another flow has series",
            25,
            {f"{K}flow_info{FLOW}": "1x10 _x60", f'{K}flow_info{{source="b",target="a"}}': "1x90"},
        ),
        silent("never there", 30, {f"{K}flow_info{FLOW}": "1x60"}),
        silent(
            "another process tells of it", 25, {f"{K}flow_info{FLOW}": "1x10 _x60", f"{K}flow_info{ANOTHER}": "1x90"}
        ),
    ],
    "KafkaMirrorInstanceDown": [
        fires("one of two", 10, {f"up{{{OF_JOB}}}": "0x20", 'up{job="kafka-mirror",instance="2"}': "1x20"}),
        silent("a restart", 8, {f"up{{{OF_JOB}}}": "1x5 0x2 1x20"}),
        silent("somebody else's", 10, {'up{job="node"}': "0x20"}),
    ],
    "KafkaMirrorCrashLoop": [
        fires(
            "every five minutes", 28, {f"process_start_time_seconds{{{OF_JOB}}}": "0x4 300x4 600x4 900x4 1200x4 1500x9"}
        ),
        silent("two restarts", 28, {f"process_start_time_seconds{{{OF_JOB}}}": "0x4 300x4 600x40"}),
    ],
    "KafkaMirrorFlowNotBegun": [
        fires("its target is down since the start", 10, {f"{K}flow_begun{FLOW}": "0x20"}),
        silent("it began a minute late", 10, {f"{K}flow_begun{FLOW}": "0 1x20"}),
        silent("another process has begun it", 10, {f"{K}flow_begun{FLOW}": "0x20", f"{K}flow_begun{ANOTHER}": "1x20"}),
    ],
    "KafkaMirrorMatchesNothing": [
        fires("a slip of the settings", 20, {f"{K}matched_topics{FLOW}": "0x40"}),
        silent("topics that are created after the start", 25, {f"{K}matched_topics{FLOW}": "0x10 3x40"}),
        silent("some match", 20, {f"{K}matched_topics{FLOW}": "3x40"}),
    ],
    "KafkaMirrorQueryDown": [
        fires("a lane has ended", 10, {f'{K}query_active{{query="lane-0"}}': "1x5 0x20"}),
        silent("it came back", 8, {f'{K}query_active{{query="lane-0"}}': "1x5 0 1x20"}),
    ],
    "KafkaMirrorLaneFlapping": [
        fires("every five minutes", 28, {f"{K}query_restarts_total": "0x4 1x4 2x4 3x4 4x4 5x9"}),
        silent("one restart", 28, {f"{K}query_restarts_total": "0x4 1x40"}),
    ],
    "KafkaMirrorClusterUnreachable": [
        fires("no answer", 12, {f"{K}cluster_up{CLUSTER}": "1x5 0x20"}),
        fires("since the start", 5, {f"{K}cluster_up{CLUSTER}": "0x20"}),
        silent("a blip", 8, {f"{K}cluster_up{CLUSTER}": "1x5 0x1 1x20"}),
    ],
    "KafkaMirrorLagDataStale": [
        fires("not polled", 20, {f"{K}last_poll_timestamp_seconds{FLOW}": "0x60"}),
        silent("polled", 20, {f"{K}last_poll_timestamp_seconds{FLOW}": "0+60x60"}),
        silent("a restart that polls at once", 20, {f"{K}last_poll_timestamp_seconds{FLOW}": "0+60x9 _x3 720+60x60"}),
    ],
    "KafkaMirrorPartitionsUnknown": [
        fires("a leaderless one", 20, statuses("unknown", "1x30")),
        silent("a new topic's first polls", 15, statuses("unknown", "0x5 3x3 0x30")),
    ],
    "KafkaMirrorStopped": [
        fires(
            "silent with lag",
            20,
            {f"{K}last_progress_timestamp_seconds{FLOW}": "0x60", f"{K}lag_records{PARTITION}": "9x60"},
        ),
        fires(
            "a restart into a hang",
            25,
            {f"{K}last_progress_timestamp_seconds{FLOW}": "0+60x9 _ 660x60", f"{K}lag_records{PARTITION}": "9x60"},
        ),
        silent(
            "silent, nothing waits",
            20,
            {f"{K}last_progress_timestamp_seconds{FLOW}": "0x60", f"{K}lag_records{PARTITION}": "0x60"},
        ),
        silent(
            "reports come",
            20,
            {f"{K}last_progress_timestamp_seconds{FLOW}": "0+60x60", f"{K}lag_records{PARTITION}": "9x60"},
        ),
        silent(
            "a restart",
            14,
            {
                f"{K}last_progress_timestamp_seconds{FLOW}": "0+60x9 _ 660 720+60x60",
                f"{K}lag_records{PARTITION}": "9x60",
            },
        ),
    ],
    "KafkaMirrorStalled": [
        fires("nothing copied, behind", 30, moving("9x60", copied="7x60")),
        fires("a restart into a hang: it counts from 0", 30, moving("9x60", copied="_x9 0x60")),
        silent(
            "its operator has paused it",
            30,
            {**moving("9x60", copied="7x60"), f"{K}partition_paused_by_operator{PARTITION}": "1x60"},
        ),
        silent("idle: nothing waits", 30, moving("0x60", copied="7x60")),
        silent("slow, but it copies", 30, moving("9x60", copied="0+1x60")),
        silent("a restart sets the counter back", 30, moving("9x60", copied="100+10x14 0+10x60")),
        silent("it flows again", 55, moving("9x20 0x60", copied="7x20 8+9x60")),
    ],
    "KafkaMirrorRpoExceeded": [
        fires("8.2 h behind, and copies", 10, waits("29520x30")),
        fires("an hour behind, and who measured it is dead", 60, waits("0x9 _x90", "0+60x9 _x90", "1x9 _x90")),
        silent("ten minutes behind", 10, waits("600x30")),
        silent(
            "its operator has paused it",
            10,
            {**waits("29520x30"), f"{K}partition_paused_by_operator{PARTITION}": "1x30"},
        ),
        silent("its topic is no longer mirrored", 60, waits("0x9 _x90", "0+60x9 _x90")),
    ],
    "KafkaMirrorRpoAtRisk": [
        fires("ten minutes behind", 10, waits("600x30")),
        silent("two minutes behind", 10, waits("120x30")),
        silent("a blip", 10, waits("0x5 600x3 0x30")),
    ],
    "KafkaMirrorRecordsLost": [
        fires("lost", 12, lost("0x10 35x20", "0x40")),
        fires("in the first window after a restart", 12, lost("0x9 _ 35x20", "0x10 600x40")),
        fires("as many in the first window after a restart as before", 12, lost("35x9 _ 35x20", "0x10 600x40")),
        fires("still exported half an hour later", 45, lost("0x10 35x90", "0x150")),
        silent("the counter back at 0", 105, lost("5x100 0x9", "0x100 6000x9")),
        silent("lost long ago", 100, lost("35x180", "0x180")),
    ],
    "KafkaMirrorRetentionImminent": [
        fires("20 minutes left, behind", 20, expiring("1200x60", "4000x60")),
        silent("an hour left", 20, expiring("3600x60", "4000x60")),
        silent("kept for 20 minutes only, level", 20, expiring("1200x60", "1x60")),
    ],
    "KafkaMirrorRetentionAtRisk": [
        fires("an hour left, behind", 20, expiring("3600x60", "4000x60")),
        silent("a day left", 20, expiring("86400x60", "4000x60")),
        silent("kept for an hour only, level", 20, expiring("3600x60", "1x60")),
        silent("it catches up", 25, expiring("3600x10 86400x60", "4000x10 1x60")),
    ],
    "KafkaMirrorFreshnessBurnsFast": [
        fires("one of two is behind", 70, fresh("1x90", "2x90")),
        fires("nobody tells of it for an hour", 120, fresh("2x60 _x90", "2x60 _x90")),
        silent("all are fresh", 70, fresh("2x90", "2x90")),
        silent("behind, and fresh again for 40 minutes", 100, fresh("0x60 2x60", "2x120")),
        silent(
            "a new process catches up for five minutes",
            66,
            {**fresh("1000x90", "1000x90"), **fresh("_x60 0x5 5x60", "_x60 1000x60", process="2")},
        ),
        silent(
            "two processes know the same for a moment",
            70,
            {**fresh("10x90", "10x90"), **fresh("_x60 9x60", "_x60 10x60", process="2")},
        ),
        silent("the first minutes of a flow", 40, fresh("0x3 2x40", "2x43")),
        silent("a restart", 64, fresh("10x60 _ _ 9 10x60", "10x60 _ _ 10x60")),
    ],
    "KafkaMirrorFreshnessBurnsSlowly": [
        fires("one percent late all day", 1500, fresh(DAY_OF_BLIPS, "100x1600")),
        silent("fresh all day", 1500, fresh("100x1500", "100x1500")),
        silent("one bad hour long ago", 1500, fresh("0x60 100x1500", "100x1600")),
    ],
    "KafkaMirrorSlotsUnserved": [
        fires("one is nobody's", 10, {f"{K}slots{FLOW}": "4x60", f"{K}slots_owned{FLOW}": "4x5 3x20"}),
        silent(
            "two processes have them all",
            10,
            {f"{K}slots{FLOW}": "4x60", f"{K}slots_owned{FLOW}": "4x5 1x20", f"{K}slots_owned{ANOTHER}": "_x5 3x20"},
        ),
    ],
    "KafkaMirrorVerifyDiffers": [
        fires("a record", 8, {f"{K}verify_differences_total{PARTITION}": "0x5 1x60"}),
        silent("all is equal", 30, {f"{K}verify_differences_total{PARTITION}": "0x60"}),
    ],
    "KafkaMirrorPartitionPaused": [
        fires("paused", 10, {f"{K}partition_paused{PARTITION}": "1x20"}),
        silent("a short pause", 9, {f"{K}partition_paused{PARTITION}": "0x5 1x2 0x20"}),
        silent(
            "by its operator",
            20,
            {f"{K}partition_paused{PARTITION}": "0x30", f"{K}partition_paused_by_operator{PARTITION}": "1x30"},
        ),
    ],
    "KafkaMirrorVerdictBad": [
        fires("one falls behind", 30, statuses("warn", "1x40")),
        silent("all are well", 30, {**statuses("ok", "9x40"), **statuses("stall", "0x40")}),
    ],
    "KafkaMirrorLagIncreasing": [
        fires("grows and grows", 60, {**moving("100+200x120"), **waits("0+30x120")}),
        silent("high and steady", 60, {**moving("90000x120"), **waits("900x120")}),
        silent("live traffic with its usual second", 60, {**moving("5+0.01x120"), **waits("1x120")}),
        silent("shrinks", 60, {**moving("90000-100x120"), **waits("900x120")}),
        silent("a burst, then level", 40, {**moving("0x20 50000-10000x5 0x60"), **waits("0x20 90x5 0x60")}),
    ],
    "KafkaMirrorCatchUpTooSlow": [
        fires("a record a minute", 60, {**moving("90000-1x120"), **waits("900x120")}),
        silent("catches up soon", 39, {**moving("90000-2000x40 10000x90"), **waits("900x120")}),
        silent(
            "transactions: offsets that are no records, level in half an hour",
            25,
            {**moving("90000-3000x30 0x90", copied="0+1x120", produced="0+2x120"), **waits("900x120")},
        ),
        silent("live traffic with its usual second", 60, {**moving("10x120"), **waits("1x120")}),
    ],
    "KafkaMirrorHandoversFail": [
        fires("predecessors hang", 12, {f"{K}takeovers_total{SLOT}": "0x5 0+1x30"}),
        fires("every third is late", 30, {f"{K}late_handovers_total{SLOT}": "0+1x60"}),
        silent("one late window", 30, {f"{K}late_handovers_total{SLOT}": "0x5 1x60"}),
        silent("one take-over after a kill", 12, {f"{K}takeovers_total{SLOT}": "0x5 1x60"}),
        silent(
            "behind an outage",
            12,
            {f"{K}takeovers_total{SLOT}": "0x5 0+1x30", f"{K}cluster_up{CLUSTER}": "1x5 0x3 1x60"},
        ),
    ],
    "KafkaMirrorClockSkew": [
        fires("a producer's clock is a minute ahead", 20, {f"{K}clock_skew_seconds{SLOT}": "60x30"}),
        silent("a tenth of a second", 20, {f"{K}clock_skew_seconds{SLOT}": "0.1x30"}),
        silent("and the producer's clock was set right", 22, {f"{K}clock_skew_seconds{SLOT}": "60x20 0x60"}),
    ],
    "KafkaMirrorClusterClockSkew": [
        fires("the target is a minute behind", 20, {CLOCK_OF_A: "-60x30"}),
        fires("the source is ahead, and was set right", 15, {CLOCK_OF_A: "60x20 0x60"}),
        silent("the source was ahead, and was set right", 22, {CLOCK_OF_A: "60x20 0x60"}),
        silent("half a second", 20, {CLOCK_OF_A: "0.5x30"}),
        silent("set right within minutes", 14, {CLOCK_OF_A: "0x5 -60x5 0x30"}),
        silent("not known any more", 20, {CLOCK_OF_A: "60x5 _x60"}),
        fires(
            "one process of two is on a machine that is off",
            20,
            {CLOCK_OF_A: "0x30", CLOCK_OF_A.replace("}", ',instance="2"}'): "-30x30"},
        ),
    ],
    "KafkaMirrorVerifyStale": [
        fires("no round any more", 80, {f"{K}last_verify_timestamp_seconds{FLOW}": "0x90"}),
        silent("a round a minute", 80, {f"{K}last_verify_timestamp_seconds{FLOW}": "0+60x90"}),
    ],
    "KafkaMirrorSettingsDiffer": [
        fires("for an hour", 30, {f"{K}settings_conflict{FLOW}": "1x60"}),
        silent("during a rolling restart", 14, {f"{K}settings_conflict{FLOW}": "0x5 1x8 0x20"}),
    ],
    "KafkaMirrorHeartbeatLate": [
        fires("none since the start", 10, {f"{K}last_heartbeat_timestamp_seconds{FLOW}": "0x60"}),
        silent("one a minute", 20, {f"{K}last_heartbeat_timestamp_seconds{FLOW}": "0+60x60"}),
        silent("three minutes without", 9, {f"{K}last_heartbeat_timestamp_seconds{FLOW}": "0+60x5 300x3 540+60x60"}),
    ],
    "KafkaMirrorDrillOverdue": [
        fires("none has passed since the start", 70, {f"{K}drill_due_timestamp_seconds{FLOW}": "3600x90"}),
        silent("one passes each hour", 80, {f"{K}drill_due_timestamp_seconds{FLOW}": "7200x60 10800x60"}),
        silent("the next one passes a little late", 63, {f"{K}drill_due_timestamp_seconds{FLOW}": "3600x62 10800x60"}),
        silent("only when somebody asks for it", 80, {f"{K}drill_last_success_timestamp_seconds{FLOW}": "0x90"}),
    ],
    "KafkaMirrorCheckpointErrors": [
        fires("each round since the start", 16, {f"{K}checkpoint_errors_total{FLOW}": "1+1x60"}),
        silent("three rounds", 16, {f"{K}checkpoint_errors_total{FLOW}": "0x5 1 2 3x60"}),
        silent("a restart sets the counter back", 22, {f"{K}checkpoint_errors_total{FLOW}": "9x10 0x60"}),
    ],
    "KafkaMirrorCheckpointStale": [
        fires("no round any more", 20, {f"{K}last_checkpoint_timestamp_seconds{GROUP}": "0x60"}),
        silent("a round a minute", 30, {f"{K}last_checkpoint_timestamp_seconds{GROUP}": "0+60x60"}),
        silent("eight minutes without", 16, {f"{K}last_checkpoint_timestamp_seconds{GROUP}": "0+60x5 300x8 840+60x60"}),
        silent("the group is gone", 30, {f"{K}last_checkpoint_timestamp_seconds{GROUP}": "0x8 _x60"}),
    ],
    "KafkaMirrorGroupCannotFailOver": [
        fires("nothing is known of its offsets", 40, offsets("no_map", "3x60")),
        fires(
            "one reason after the other", 40, {**offsets("refused", "3x20 _x60"), **offsets("past_end", "_x20 1x60")}
        ),
        silent("the first twenty minutes", 25, offsets("no_map", "3x20 _x60")),
        silent("in use, or a little ahead", 40, {**offsets("active", "3x60"), **offsets("ahead", "3x60")}),
    ],
    "KafkaMirrorSeriesLimitReached": [
        fires("folded", 15, {f"{K}dropped_series": "500x30"}),
        silent("all exposed", 15, {f"{K}dropped_series": "0x30"}),
    ],
    "KafkaMirrorListenerErrors": [
        fires("an error", 8, {f"{K}listener_errors_total": "0x5 1x20"}),
        silent("none", 30, {f"{K}listener_errors_total": "0x60"}),
    ],
    "KafkaMirrorOffsetsDiffer": [
        fires("they differ", 8, {f"{K}offsets_identical{PARTITION}": "1x5 0x20"}),
        silent("one comparison", 8, {f"{K}offsets_identical{PARTITION}": "1x5 0 1x20"}),
        silent("identical", 30, {f"{K}offsets_identical{PARTITION}": "1x60"}),
    ],
    "KafkaMirrorOffsetRewind": [
        fires("rewound", 8, {f"{K}offset_rewinds_total{PARTITION}": "0x5 1x20"}),
        silent("never", 30, {f"{K}offset_rewinds_total{PARTITION}": "0x60"}),
    ],
    "KafkaMirrorOpenTransaction": [
        fires("it hangs", 10, {**waits("1200x30"), f"{K}partition_behind_open_transaction{PARTITION}": "1x30"}),
        silent("it may end yet", 10, {**waits("300x30"), f"{K}partition_behind_open_transaction{PARTITION}": "1x30"}),
        silent(
            "it waits for something else",
            10,
            {**waits("1200x30"), f"{K}partition_behind_open_transaction{PARTITION}": "0x30"},
        ),
    ],
    "KafkaMirrorTopicAbsent": [
        fires("refused by the target", 12, {f"{K}partition_status{PARTITION}": "8x60"}),
        silent("created at the next look", 12, {f"{K}partition_status{PARTITION}": "8x5 1x60"}),
        silent("it stands", 12, {f"{K}partition_status{PARTITION}": "5x60"}),
    ],
    "KafkaMirrorConfigDrift": [
        fires("refused", 35, {f"{K}config_drift_settings{TOPIC}": "2x60"}),
        silent("carried over at the next interval", 35, {f"{K}config_drift_settings{TOPIC}": "2x10 0x60"}),
    ],
}


def promtool(*arguments: str) -> str:
    found = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@needs_promtool
def test_promtool_accepts_the_rules():
    said = promtool("check", "rules", str(ROOT / RULES))
    assert f"{len(alerts()) + len(recording())} rules found" in said


def needed_by(alert: str) -> dict[str, Any]:
    """Return an alert's rule and the recording rules that its expression reads, in their groups and their order."""
    groups = rules()["groups"]
    by_name = {rule.get("record") or rule["alert"]: rule for group in groups for rule in group["rules"]}
    needed: list[dict[str, Any]] = []
    following = [alert]
    while following:
        rule = by_name[following.pop()]
        if rule not in needed:
            needed.append(rule)
            following += [name for name in recording() if name in rule["expr"]]
    kept = [{**group, "rules": [rule for rule in group["rules"] if rule in needed]} for group in groups]
    return {"groups": [group for group in kept if group["rules"]]}


def unit_test(alert: str, scene: Scene) -> dict[str, Any]:
    """Return a scene as promtool reads it, with the alert's rules in a file next to it."""
    firing = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'
    expected = [{"labels": "{}", "value": int(scene.fires)}]
    return {
        "rule_files": [f"{alert}.rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in scene.series.items()],
                "promql_expr_test": [{"expr": firing, "eval_time": f"{scene.minute}m", "exp_samples": expected}],
            }
        ],
    }


@pytest.fixture(scope="session")
def results(request, tmp_path_factory) -> dict[tuple[str, str], str]:
    """What promtool prints of each selected scene, by alert and scene, from one process for all of them."""
    folder = tmp_path_factory.mktemp("rules")
    selected = [
        item.callspec.params for item in request.session.items if "results" in getattr(item, "fixturenames", ())
    ]
    scenes = {f"{number}.yml": (each["alert"], each["scene"]) for number, each in enumerate(selected)}
    for alert in {alert for alert, _ in scenes.values()}:
        (folder / f"{alert}.rules.yml").write_text(json.dumps(needed_by(alert)))
    for name, (alert, scene) in scenes.items():
        (folder / name).write_text(json.dumps(unit_test(alert, scene)))
    found = subprocess.run(
        ["promtool", "test", "rules", *scenes],
        cwd=folder,
        env=os.environ | {"GOGC": "800"},  # spares half of the time
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    _, *printed = re.split(r"^Unit Testing:  (\S+)$", found.stdout, flags=re.MULTILINE)
    by_file = dict(zip(printed[::2], printed[1::2], strict=True))
    assert by_file.keys() == scenes.keys(), found.stdout
    return {(alert, scene.what): by_file[name].strip() for name, (alert, scene) in scenes.items()}


@needs_promtool
@pytest.mark.parametrize(
    ("alert", "scene"),
    [pytest.param(alert, scene, id=f"{alert}: {scene.what}") for alert, scenes in SCENES.items() for scene in scenes],
)
def test_alerts_fire_and_stay_silent(alert, scene, results):
    assert results[alert, scene.what] == "SUCCESS"


@needs_promtool
def test_promtool_accepts_the_configuration_and_finds_the_rules():
    said = promtool("check", "config", str(ROOT / "dashboards" / "prometheus" / "prometheus.yml"))
    assert f"{len(alerts()) + len(recording())} rules found" in said


def test_the_alertmanager_example_silences_by_alerts_that_exist():
    config = yaml.safe_load((ROOT / "dashboards" / "prometheus" / "alertmanager.yml").read_text())
    names = {alert.name for alert in alerts()}
    asked: set[str] = set()
    for rule in config["inhibit_rules"]:
        for matcher in [*rule["source_matchers"], *rule["target_matchers"]]:
            label, pattern = re.fullmatch(r'(\w+) (?:=|=~|!=) "(.*)"', matcher).groups()
            if label == "alertname":
                hit = {name for name in names if re.fullmatch(pattern, name)}
                assert hit, pattern
                asked |= hit
    assert asked == names - {
        "KafkaMirrorRecordsLost",
        "KafkaMirrorListenerErrors",
        "KafkaMirrorOffsetRewind",
        "KafkaMirrorOffsetsDiffer",
        "KafkaMirrorSeriesLimitReached",
        "KafkaMirrorGroupCannotFailOver",
        "KafkaMirrorConfigDrift",
        "KafkaMirrorSettingsDiffer",
        "KafkaMirrorVerifyDiffers",
        "KafkaMirrorVerifyStale",
        "KafkaMirrorCrashLoop",
        "KafkaMirrorLaneFlapping",
        "KafkaMirrorClockSkew",
        "KafkaMirrorClusterClockSkew",
        "KafkaMirrorMatchesNothing",
        "KafkaMirrorDrillOverdue",
    }


@pytest.mark.skipif(shutil.which("amtool") is None, reason="amtool (Debian: prometheus-alertmanager) is not installed")
def test_amtool_accepts_the_example():
    config = ROOT / "dashboards" / "prometheus" / "alertmanager.yml"
    found = subprocess.run(["amtool", "check-config", str(config)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "12 inhibit rules" in found.stdout


def test_every_alert_has_scenes_of_both_kinds():
    for alert in alerts():
        assert {scene.fires for scene in SCENES.get(alert.name, ())} == {True, False}, alert.name


def test_rules_use_the_states_of_the_checkpoints():
    assert {*NO_WAY.split("|"), *HEALTHY.split("|")} <= {state.value for state in State}


def test_rules_read_families_of_the_catalogue_and_recorded_ones_only():
    known = {name for spec in CATALOGUE for name in series_names(spec)} | set(recording())
    for expr in [*recording().values(), *(alert.expr for alert in alerts())]:
        named = set(re.findall(r"[a-z_:]*kafka_mirror_[a-z0-9_:]+", expr))
        assert named <= known or named == set(), named - known


def test_counters_are_read_by_their_increase_and_gauges_are_not():
    for expr in [*recording().values(), *(alert.expr for alert in alerts())]:
        for name in set(BY_NAME) & set(re.findall(r"kafka_mirror_[a-z0-9_]+", expr)):
            inside = re.findall(rf"(\w+)\({name}\[", expr)
            if BY_NAME[name].kind == "counter":
                assert inside
                assert set(inside) <= {"rate", "increase"}
            elif BY_NAME[name].kind == "gauge":
                assert not {"rate", "increase"} & set(inside)


def test_alerts_point_to_the_runbook_and_to_the_board_of_what_they_are_about():
    monitoring = Monitoring(runbook="https://wiki/mirror", grafana="https://grafana", inspector="https://lag")
    made = rules(monitoring)["groups"][1]["rules"]
    links = {rule["alert"]: rule["annotations"] for rule in made}
    assert links["KafkaMirrorStalled"]["runbook_url"] == "https://wiki/mirror#kafkamirrorstalled"
    pages = {name: url["inspector_url"].partition("?")[0] for name, url in links.items()}
    assert pages["KafkaMirrorStalled"] == "https://lag/partitions"
    assert pages["KafkaMirrorQueryDown"] == "https://lag/health"
    assert pages["KafkaMirrorGroupCannotFailOver"] == "https://lag/groups"
    assert "inspector_url" not in rules()["groups"][1]["rules"][0]["annotations"]
    boards = {name: url["dashboard_url"].partition("?")[0] for name, url in links.items()}
    assert boards["KafkaMirrorStalled"] == "https://grafana/d/kafka-mirror-topic"
    assert boards["KafkaMirrorCheckpointStale"] == "https://grafana/d/kafka-mirror-failover"
    assert boards["KafkaMirrorStopped"] == "https://grafana/d/kafka-mirror-overview"
    assert boards["KafkaMirrorQueryDown"] == "https://grafana/d/kafka-mirror-engine"


def test_every_alert_has_a_section_in_the_runbook_and_every_section_an_alert():
    page = (ROOT / "docs" / "runbook.md").read_text()
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == [alert.name for alert in alerts()]
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        parts = ("Severity.", "Meaning.", "Impact.", "Query.", "Why?", "Fix.", "Worked?", "Fail over?")
        found = [section.find(f"**{part}**") for part in parts]
        assert min(found) > 0, section.split("\n")[0]
        assert found == sorted(found), section.split("\n")[0]
        assert "\n| Cause | Do |\n| --- | --- |\n| " in section, section.split("\n")[0]


def test_the_runbook_has_the_severity_and_sections_of_each_alert():
    page = (ROOT / "docs" / "runbook.md").read_text()
    index = page.partition("### ")[0]
    for alert in alerts():
        section = page.partition(f"\n## {alert.name}\n")[2]
        assert section.startswith(f"**Severity.** {alert.severity};"), alert.name
        assert f"](#{alert.name.lower()})" in index, alert.name


def test_the_runbook_names_an_escalation_for_each_critical_alert():
    page = (ROOT / "docs" / "runbook.md").read_text()
    sections = {text.split("\n")[0]: text for text in re.split(r"^## ", page, flags=re.MULTILINE)[1:]}
    critical = {alert.name for alert in alerts() if alert.severity == "critical"}
    assert {name for name, text in sections.items() if "**Escalate.**" in text} == critical


def test_the_runbook_searches_the_log_for_texts_that_the_program_logs():
    page = (ROOT / "docs" / "runbook.md").read_text()
    searched = re.findall(
        r"journalctl -u kafka-mirror(?: --since \S+)? \| grep (?:-[A-Z]\w* |-[a-z] )*(['\"])(.+?)\1", page
    )
    texts = {text for _, pattern in searched for text in re.split(r"\\?\|", pattern)}
    assert len(texts) > 15
    source = "".join(path.read_text() for path in (ROOT / "mirror").rglob("*.py"))
    source = re.sub(r'"\s*\n\s*f?"', "", source)  # a text over several lines
    of_others = {"started", "exited", "kafka-mirror:", "A->B"}
    assert {text for text in texts - of_others if text not in source} == set()


@needs_promtool
def test_the_runbooks_queries_read_what_there_is(tmp_path):
    """As they are copied into Prometheus."""
    page = (ROOT / "docs" / "runbook.md").read_text()
    queries = re.findall(r"^\*\*Query\.\*\* `(.+?)`;", page, re.MULTILINE)
    assert len(queries) == len(alerts())
    exposed = {name for spec in CATALOGUE for name in series_names(spec)} | set(recording())
    named = set(re.findall(r"\b(?:kafka_mirror_|source_target)[\w:]*", " ".join(queries)))
    assert named <= exposed, named - exposed
    made = [{"record": f"query:{number}", "expr": expr} for number, expr in enumerate(queries)]
    (tmp_path / "queries.yml").write_text(yaml.safe_dump({"groups": [{"name": "runbook", "rules": made}]}))
    checked = subprocess.run(
        ["promtool", "check", "rules", str(tmp_path / "queries.yml")], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_generated_files_are_what_the_generator_writes(tmp_path):
    assert stale() == [], "run kafka-mirror dashboards build"
    assert stale(tmp_path / "absent") == list(files())
    build(tmp_path)
    (tmp_path / FOLDER / "old.json").write_text("{}")
    (tmp_path / RULES).write_text("")
    assert stale(tmp_path) == [RULES, f"{FOLDER}/old.json"]
