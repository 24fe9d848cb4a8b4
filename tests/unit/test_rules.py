"""The rules by promtool: each alert fires, stays silent where it must, and reads only families that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from dashboards.alerts import NO_WAY, alerts
from dashboards.build import FOLDER, build, files, stale
from dashboards.monitoring import Monitoring
from dashboards.queries import WELL
from dashboards.recording import recording
from dashboards.rules import rules
from metrics.catalogue import BY_NAME, CATALOGUE, series_names
from mirror.checkpoints.rules import State

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
    """One topic-partition: its time lag as it is told, up to when it is replicated, and whether anybody tells of its flow."""
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


# alert, what happens, series (a sample a minute), minute, does it fire
SCENES = [
    ("KafkaMirrorDown", "no target at all", {}, 5, True),
    ("KafkaMirrorDown", "the only one is down", {f"{K}flow_info{FLOW}": "1x10 _x60"}, 20, True),
    ("KafkaMirrorDown", "and a verify process lives in the same job",
     {f"{K}flow_info{FLOW}": "1x10 _x60", f"{K}last_verify_timestamp_seconds{FLOW}": "0+60x60",
      'up{job="kafka-mirror",instance="verify"}': "1x60"}, 20, True),
    ("KafkaMirrorDown", "one of two is up",
     {f"{K}flow_info{FLOW}": "1x10 _x60", f"{K}flow_info{ANOTHER}": "1x60"}, 30, False),
    ("KafkaMirrorDown", "a blip of two minutes", {f"{K}flow_info{FLOW}": "1x10 _ _ 1x60"}, 13, False),
    ("KafkaMirrorFlowGone", "another flow is told of",
     {f"{K}flow_info{FLOW}": "1x10 _x60", f'{K}flow_info{{source="b",target="a"}}': "1x90"}, 25, True),
    ("KafkaMirrorFlowGone", "never there", {f"{K}flow_info{FLOW}": "1x60"}, 30, False),
    ("KafkaMirrorFlowGone", "another process tells of it",
     {f"{K}flow_info{FLOW}": "1x10 _x60", f"{K}flow_info{ANOTHER}": "1x90"}, 25, False),
    ("KafkaMirrorInstanceDown", "one of two",
     {f"up{{{OF_JOB}}}": "0x20", 'up{job="kafka-mirror",instance="2"}': "1x20"}, 10, True),
    ("KafkaMirrorInstanceDown", "a restart", {f"up{{{OF_JOB}}}": "1x5 0x2 1x20"}, 8, False),
    ("KafkaMirrorInstanceDown", "somebody else's", {'up{job="node"}': "0x20"}, 10, False),
    ("KafkaMirrorCrashLoop", "every five minutes",
     {f"process_start_time_seconds{{{OF_JOB}}}": "0x4 300x4 600x4 900x4 1200x4 1500x9"}, 28, True),
    ("KafkaMirrorCrashLoop", "two restarts", {f"process_start_time_seconds{{{OF_JOB}}}": "0x4 300x4 600x40"}, 28, False),
    ("KafkaMirrorFlowNotBegun", "its target is down since the start", {f"{K}flow_begun{FLOW}": "0x20"}, 10, True),
    ("KafkaMirrorFlowNotBegun", "it began a minute late", {f"{K}flow_begun{FLOW}": "0 1x20"}, 10, False),
    ("KafkaMirrorFlowNotBegun", "another process has begun it",
     {f"{K}flow_begun{FLOW}": "0x20", f"{K}flow_begun{ANOTHER}": "1x20"}, 10, False),
    ("KafkaMirrorQueryDown", "a lane has ended", {f'{K}query_active{{query="lane-0"}}': "1x5 0x20"}, 10, True),
    ("KafkaMirrorQueryDown", "it came back", {f'{K}query_active{{query="lane-0"}}': "1x5 0 1x20"}, 8, False),
    ("KafkaMirrorLaneFlapping", "every five minutes", {f"{K}query_restarts_total": "0x4 1x4 2x4 3x4 4x4 5x9"}, 28, True),
    ("KafkaMirrorLaneFlapping", "one restart", {f"{K}query_restarts_total": "0x4 1x40"}, 28, False),
    ("KafkaMirrorClusterUnreachable", "no answer", {f"{K}cluster_up{CLUSTER}": "1x5 0x20"}, 12, True),
    ("KafkaMirrorClusterUnreachable", "since the start", {f"{K}cluster_up{CLUSTER}": "0x20"}, 5, True),
    ("KafkaMirrorClusterUnreachable", "a blip", {f"{K}cluster_up{CLUSTER}": "1x5 0x1 1x20"}, 8, False),
    ("KafkaMirrorLagDataStale", "not polled", {f"{K}last_poll_timestamp_seconds{FLOW}": "0x60"}, 20, True),
    ("KafkaMirrorLagDataStale", "polled", {f"{K}last_poll_timestamp_seconds{FLOW}": "0+60x60"}, 20, False),
    ("KafkaMirrorLagDataStale", "a restart that polls at once",
     {f"{K}last_poll_timestamp_seconds{FLOW}": "0+60x9 _x3 720+60x60"}, 20, False),
    ("KafkaMirrorPartitionsUnknown", "a leaderless one", statuses("unknown", "1x30"), 20, True),
    ("KafkaMirrorPartitionsUnknown", "a new topic's first polls", statuses("unknown", "0x5 3x3 0x30"), 15, False),
    ("KafkaMirrorStopped", "silent with lag",
     {f"{K}last_progress_timestamp_seconds{FLOW}": "0x60", f"{K}lag_records{PARTITION}": "9x60"}, 20, True),
    ("KafkaMirrorStopped", "a restart into a hang",
     {f"{K}last_progress_timestamp_seconds{FLOW}": "0+60x9 _ 660x60", f"{K}lag_records{PARTITION}": "9x60"}, 25, True),
    ("KafkaMirrorStopped", "silent, nothing waits",
     {f"{K}last_progress_timestamp_seconds{FLOW}": "0x60", f"{K}lag_records{PARTITION}": "0x60"}, 20, False),
    ("KafkaMirrorStopped", "reports come",
     {f"{K}last_progress_timestamp_seconds{FLOW}": "0+60x60", f"{K}lag_records{PARTITION}": "9x60"}, 20, False),
    ("KafkaMirrorStopped", "a restart", {f"{K}last_progress_timestamp_seconds{FLOW}": "0+60x9 _ 660 720+60x60",
                                         f"{K}lag_records{PARTITION}": "9x60"}, 14, False),
    ("KafkaMirrorStalled", "nothing copied, behind", moving("9x60", copied="7x60"), 30, True),
    ("KafkaMirrorStalled", "a restart into a hang: it counts from 0", moving("9x60", copied="_x9 0x60"), 30, True),
    ("KafkaMirrorStalled", "its operator has paused it",
     {**moving("9x60", copied="7x60"), f"{K}partition_paused_by_operator{PARTITION}": "1x60"}, 30, False),
    ("KafkaMirrorStalled", "idle: nothing waits", moving("0x60", copied="7x60"), 30, False),
    ("KafkaMirrorStalled", "slow, but it copies", moving("9x60", copied="0+1x60"), 30, False),
    ("KafkaMirrorStalled", "a restart sets the counter back", moving("9x60", copied="100+10x14 0+10x60"), 30, False),
    ("KafkaMirrorStalled", "it flows again", moving("9x20 0x60", copied="7x20 8+9x60"), 55, False),
    ("KafkaMirrorRpoExceeded", "8.2 h behind, and copies", waits("29520x30"), 10, True),
    ("KafkaMirrorRpoExceeded", "an hour behind, and who measured it is dead",
     waits("0x9 _x90", "0+60x9 _x90", "1x9 _x90"), 60, True),
    ("KafkaMirrorRpoExceeded", "ten minutes behind", waits("600x30"), 10, False),
    ("KafkaMirrorRpoExceeded", "its operator has paused it",
     {**waits("29520x30"), f"{K}partition_paused_by_operator{PARTITION}": "1x30"}, 10, False),
    ("KafkaMirrorRpoExceeded", "its topic is no longer mirrored", waits("0x9 _x90", "0+60x9 _x90"), 60, False),
    ("KafkaMirrorRpoAtRisk", "ten minutes behind", waits("600x30"), 10, True),
    ("KafkaMirrorRpoAtRisk", "two minutes behind", waits("120x30"), 10, False),
    ("KafkaMirrorRpoAtRisk", "a blip", waits("0x5 600x3 0x30"), 10, False),
    ("KafkaMirrorRecordsLost", "lost", lost("0x10 35x20", "0x40"), 12, True),
    ("KafkaMirrorRecordsLost", "in the first window after a restart", lost("0x9 _ 35x20", "0x10 600x40"), 12, True),
    ("KafkaMirrorRecordsLost", "as many in the first window after a restart as before",
     lost("35x9 _ 35x20", "0x10 600x40"), 12, True),
    ("KafkaMirrorRecordsLost", "still told half an hour later", lost("0x10 35x90", "0x150"), 45, True),
    ("KafkaMirrorRecordsLost", "the counter back at 0", lost("5x100 0x9", "0x100 6000x9"), 105, False),
    ("KafkaMirrorRecordsLost", "lost long ago", lost("35x180", "0x180"), 100, False),
    ("KafkaMirrorRetentionImminent", "20 minutes left, behind", expiring("1200x60", "4000x60"), 20, True),
    ("KafkaMirrorRetentionImminent", "an hour left", expiring("3600x60", "4000x60"), 20, False),
    ("KafkaMirrorRetentionImminent", "kept for 20 minutes only, level", expiring("1200x60", "1x60"), 20, False),
    ("KafkaMirrorRetentionAtRisk", "an hour left, behind", expiring("3600x60", "4000x60"), 20, True),
    ("KafkaMirrorRetentionAtRisk", "a day left", expiring("86400x60", "4000x60"), 20, False),
    ("KafkaMirrorRetentionAtRisk", "kept for an hour only, level", expiring("3600x60", "1x60"), 20, False),
    ("KafkaMirrorRetentionAtRisk", "it catches up", expiring("3600x10 86400x60", "4000x10 1x60"), 25, False),
    ("KafkaMirrorFreshnessBurnsFast", "one of two is behind", fresh("1x90", "2x90"), 70, True),
    ("KafkaMirrorFreshnessBurnsFast", "nobody tells of it for an hour", fresh("2x60 _x90", "2x60 _x90"), 120, True),
    ("KafkaMirrorFreshnessBurnsFast", "all are fresh", fresh("2x90", "2x90"), 70, False),
    ("KafkaMirrorFreshnessBurnsFast", "behind, and fresh again for 40 minutes", fresh("0x60 2x60", "2x120"), 100, False),
    ("KafkaMirrorFreshnessBurnsFast", "a new process catches up for five minutes",
     {**fresh("1000x90", "1000x90"), **fresh("_x60 0x5 5x60", "_x60 1000x60", process="2")}, 66, False),
    ("KafkaMirrorFreshnessBurnsFast", "two processes know the same for a moment",
     {**fresh("10x90", "10x90"), **fresh("_x60 9x60", "_x60 10x60", process="2")}, 70, False),
    ("KafkaMirrorFreshnessBurnsFast", "the first minutes of a flow", fresh("0x3 2x40", "2x43"), 40, False),
    ("KafkaMirrorFreshnessBurnsFast", "a restart", fresh("10x60 _ _ 9 10x60", "10x60 _ _ 10x60"), 64, False),
    ("KafkaMirrorFreshnessBurnsSlowly", "one percent late all day", fresh(DAY_OF_BLIPS, "100x1600"), 1500, True),
    ("KafkaMirrorFreshnessBurnsSlowly", "fresh all day", fresh("100x1500", "100x1500"), 1500, False),
    ("KafkaMirrorFreshnessBurnsSlowly", "one bad hour long ago", fresh("0x60 100x1500", "100x1600"), 1500, False),
    ("KafkaMirrorSlotsUnserved", "one is nobody's",
     {f"{K}slots{FLOW}": "4x60", f"{K}slots_owned{FLOW}": "4x5 3x20"}, 10, True),
    ("KafkaMirrorSlotsUnserved", "two processes have them all",
     {f"{K}slots{FLOW}": "4x60", f"{K}slots_owned{FLOW}": "4x5 1x20", f"{K}slots_owned{ANOTHER}": "_x5 3x20"}, 10, False),
    ("KafkaMirrorVerifyDiffers", "a record", {f"{K}verify_differences_total{PARTITION}": "0x5 1x60"}, 8, True),
    ("KafkaMirrorVerifyDiffers", "all is equal", {f"{K}verify_differences_total{PARTITION}": "0x60"}, 30, False),
    ("KafkaMirrorPartitionPaused", "paused", {f"{K}partition_paused{PARTITION}": "1x20"}, 10, True),
    ("KafkaMirrorPartitionPaused", "a short pause", {f"{K}partition_paused{PARTITION}": "0x5 1x2 0x20"}, 9, False),
    ("KafkaMirrorPartitionPaused", "by its operator",
     {f"{K}partition_paused{PARTITION}": "0x30", f"{K}partition_paused_by_operator{PARTITION}": "1x30"}, 20, False),
    ("KafkaMirrorVerdictBad", "one falls behind", statuses("warn", "1x40"), 30, True),
    ("KafkaMirrorVerdictBad", "all are well", {**statuses("ok", "9x40"), **statuses("stall", "0x40")}, 30, False),
    ("KafkaMirrorLagIncreasing", "grows and grows", {**moving("100+200x120"), **waits("0+30x120")}, 60, True),
    ("KafkaMirrorLagIncreasing", "high and steady", {**moving("90000x120"), **waits("900x120")}, 60, False),
    ("KafkaMirrorLagIncreasing", "live traffic with its usual second", {**moving("5+0.01x120"), **waits("1x120")}, 60, False),
    ("KafkaMirrorLagIncreasing", "shrinks", {**moving("90000-100x120"), **waits("900x120")}, 60, False),
    ("KafkaMirrorLagIncreasing", "a burst, then level",
     {**moving("0x20 50000-10000x5 0x60"), **waits("0x20 90x5 0x60")}, 40, False),
    ("KafkaMirrorCatchUpTooSlow", "a record a minute", {**moving("90000-1x120"), **waits("900x120")}, 60, True),
    ("KafkaMirrorCatchUpTooSlow", "catches up soon", {**moving("90000-2000x40 10000x90"), **waits("900x120")}, 39, False),
    ("KafkaMirrorCatchUpTooSlow", "transactions: offsets that are no records, level in half an hour",
     {**moving("90000-3000x30 0x90", copied="0+1x120", produced="0+2x120"), **waits("900x120")}, 25, False),
    ("KafkaMirrorCatchUpTooSlow", "live traffic with its usual second", {**moving("10x120"), **waits("1x120")}, 60, False),
    ("KafkaMirrorHandoversFail", "predecessors hang", {f"{K}takeovers_total{SLOT}": "0x5 0+1x30"}, 12, True),
    ("KafkaMirrorHandoversFail", "every third is late", {f"{K}late_handovers_total{SLOT}": "0+1x60"}, 30, True),
    ("KafkaMirrorHandoversFail", "one late window", {f"{K}late_handovers_total{SLOT}": "0x5 1x60"}, 30, False),
    ("KafkaMirrorHandoversFail", "one take-over after a kill", {f"{K}takeovers_total{SLOT}": "0x5 1x60"}, 12, False),
    ("KafkaMirrorHandoversFail", "behind an outage",
     {f"{K}takeovers_total{SLOT}": "0x5 0+1x30", f"{K}cluster_up{CLUSTER}": "1x5 0x3 1x60"}, 12, False),
    ("KafkaMirrorClockSkew", "a producer's clock is a minute ahead", {f"{K}clock_skew_seconds{SLOT}": "60x30"}, 20, True),
    ("KafkaMirrorClockSkew", "a tenth of a second", {f"{K}clock_skew_seconds{SLOT}": "0.1x30"}, 20, False),
    ("KafkaMirrorClusterClockSkew", "the target is a minute behind", {CLOCK_OF_A: "-60x30"}, 20, True),
    ("KafkaMirrorClusterClockSkew", "the source is ahead, and was set right", {CLOCK_OF_A: "60x20 0x60"}, 15, True),
    ("KafkaMirrorClusterClockSkew", "the source was ahead, and was set right", {CLOCK_OF_A: "60x20 0x60"}, 22, False),
    ("KafkaMirrorClusterClockSkew", "half a second", {CLOCK_OF_A: "0.5x30"}, 20, False),
    ("KafkaMirrorClusterClockSkew", "set right within minutes", {CLOCK_OF_A: "0x5 -60x5 0x30"}, 14, False),
    ("KafkaMirrorClusterClockSkew", "not known any more", {CLOCK_OF_A: "60x5 _x60"}, 20, False),
    ("KafkaMirrorClusterClockSkew", "one process of two is on a machine that is off",
     {CLOCK_OF_A: "0x30", CLOCK_OF_A.replace("}", ',instance="2"}'): "-30x30"}, 20, True),
    ("KafkaMirrorClockSkew", "and the producer's clock was set right", {f"{K}clock_skew_seconds{SLOT}": "60x20 0x60"}, 22, False),
    ("KafkaMirrorVerifyStale", "no round any more", {f"{K}last_verify_timestamp_seconds{FLOW}": "0x90"}, 80, True),
    ("KafkaMirrorVerifyStale", "a round a minute", {f"{K}last_verify_timestamp_seconds{FLOW}": "0+60x90"}, 80, False),
    ("KafkaMirrorSettingsDiffer", "for an hour", {f"{K}settings_conflict{FLOW}": "1x60"}, 30, True),
    ("KafkaMirrorSettingsDiffer", "during a rolling restart", {f"{K}settings_conflict{FLOW}": "0x5 1x8 0x20"}, 14, False),
    ("KafkaMirrorHeartbeatLate", "none since the start", {f"{K}last_heartbeat_timestamp_seconds{FLOW}": "0x60"}, 10, True),
    ("KafkaMirrorHeartbeatLate", "one a minute", {f"{K}last_heartbeat_timestamp_seconds{FLOW}": "0+60x60"}, 20, False),
    ("KafkaMirrorHeartbeatLate", "three minutes without",
     {f"{K}last_heartbeat_timestamp_seconds{FLOW}": "0+60x5 300x3 540+60x60"}, 9, False),
    ("KafkaMirrorCheckpointErrors", "each round since the start", {f"{K}checkpoint_errors_total{FLOW}": "1+1x60"}, 16, True),
    ("KafkaMirrorCheckpointErrors", "three rounds", {f"{K}checkpoint_errors_total{FLOW}": "0x5 1 2 3x60"}, 16, False),
    ("KafkaMirrorCheckpointErrors", "a restart sets the counter back",
     {f"{K}checkpoint_errors_total{FLOW}": "9x10 0x60"}, 22, False),
    ("KafkaMirrorCheckpointStale", "no round any more", {f"{K}last_checkpoint_timestamp_seconds{GROUP}": "0x60"}, 20, True),
    ("KafkaMirrorCheckpointStale", "a round a minute", {f"{K}last_checkpoint_timestamp_seconds{GROUP}": "0+60x60"}, 30, False),
    ("KafkaMirrorCheckpointStale", "eight minutes without",
     {f"{K}last_checkpoint_timestamp_seconds{GROUP}": "0+60x5 300x8 840+60x60"}, 16, False),
    ("KafkaMirrorCheckpointStale", "the group is gone", {f"{K}last_checkpoint_timestamp_seconds{GROUP}": "0x8 _x60"}, 30, False),
    ("KafkaMirrorGroupCannotFailOver", "nothing is known of its offsets", offsets("no_map", "3x60"), 40, True),
    ("KafkaMirrorGroupCannotFailOver", "one reason after the other",
     {**offsets("refused", "3x20 _x60"), **offsets("past_end", "_x20 1x60")}, 40, True),
    ("KafkaMirrorGroupCannotFailOver", "the first twenty minutes", offsets("no_map", "3x20 _x60"), 25, False),
    ("KafkaMirrorGroupCannotFailOver", "in use, or a little ahead",
     {**offsets("active", "3x60"), **offsets("ahead", "3x60")}, 40, False),
    ("KafkaMirrorSeriesLimitReached", "folded", {f"{K}dropped_series": "500x30"}, 15, True),
    ("KafkaMirrorSeriesLimitReached", "all exposed", {f"{K}dropped_series": "0x30"}, 15, False),
    ("KafkaMirrorListenerErrors", "an error", {f"{K}listener_errors_total": "0x5 1x20"}, 8, True),
    ("KafkaMirrorListenerErrors", "none", {f"{K}listener_errors_total": "0x60"}, 30, False),
    ("KafkaMirrorOffsetRewind", "rewound", {f"{K}offset_rewinds_total{PARTITION}": "0x5 1x20"}, 8, True),
    ("KafkaMirrorOffsetRewind", "never", {f"{K}offset_rewinds_total{PARTITION}": "0x60"}, 30, False),
    ("KafkaMirrorConfigDrift", "refused", {f"{K}config_drift_settings{TOPIC}": "2x60"}, 35, True),
    ("KafkaMirrorConfigDrift", "carried over at the next interval", {f"{K}config_drift_settings{TOPIC}": "2x10 0x60"}, 35, False),
]  # fmt: skip


def promtool(*arguments: str) -> str:
    found = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@needs_promtool
def test_promtool_accepts_the_rules():
    said = promtool("check", "rules", str(ROOT / RULES))
    assert f"{len(alerts()) + len(recording())} rules found" in said


@needs_promtool
@pytest.mark.parametrize(
    ("alert", "series", "minute", "fires"),
    [(alert, series, minute, fires) for alert, _, series, minute, fires in SCENES],
    ids=[f"{alert}: {what}" for alert, what, *_ in SCENES],
)
def test_alerts_fire_and_stay_silent(alert, series, minute, fires, tmp_path):
    firing = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'
    case = {
        "rule_files": [str(ROOT / RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {"expr": firing, "eval_time": f"{minute}m", "exp_samples": [{"labels": "{}", "value": int(fires)}]}
                ],
            }
        ],
    }
    (tmp_path / "case.yml").write_text(yaml.safe_dump(case))
    promtool("test", "rules", str(tmp_path / "case.yml"))


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
        "KafkaMirrorRecordsLost", "KafkaMirrorListenerErrors", "KafkaMirrorOffsetRewind", "KafkaMirrorSeriesLimitReached",
        "KafkaMirrorGroupCannotFailOver", "KafkaMirrorConfigDrift", "KafkaMirrorSettingsDiffer",
        "KafkaMirrorVerifyDiffers", "KafkaMirrorVerifyStale", "KafkaMirrorCrashLoop",
        "KafkaMirrorLaneFlapping", "KafkaMirrorClockSkew", "KafkaMirrorClusterClockSkew",
    }  # fmt: skip


@pytest.mark.skipif(shutil.which("amtool") is None, reason="amtool (Debian: prometheus-alertmanager) is not installed")
def test_amtool_accepts_the_example():
    config = ROOT / "dashboards" / "prometheus" / "alertmanager.yml"
    found = subprocess.run(["amtool", "check-config", str(config)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "10 inhibit rules" in found.stdout


def test_every_alert_has_scenes_of_both_kinds():
    for alert in alerts():
        assert {fires for name, *_, fires in SCENES if name == alert.name} == {True, False}, alert.name


def test_what_becomes_of_a_groups_offset_is_called_as_checkpoints_call_it():
    assert {*NO_WAY.split("|"), *WELL.split("|")} <= {state.value for state in State}


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
    assert pages["KafkaMirrorStalled"] == "https://lag/lag"
    assert pages["KafkaMirrorQueryDown"] == "https://lag/health"
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
        for part in ("Meaning", "Impact", "First look", "Query", "Causes", "Fix", "Fail over?"):
            assert f"**{part}" in section, (section.split("\n")[0], part)


def test_who_is_woken_reads_in_the_runbook_to_whom_to_turn():
    page = (ROOT / "docs" / "runbook.md").read_text()
    sections = {text.split("\n")[0]: text for text in re.split(r"^## ", page, flags=re.MULTILINE)[1:]}
    critical = {alert.name for alert in alerts() if alert.severity == "critical"}
    assert {name for name, text in sections.items() if "**Escalate.**" in text} == critical


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
