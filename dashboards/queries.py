"""Name the queries that boards ask Prometheus, as functions over the catalogue. Pure.

`$job`, `$source`, `$target`, `$topic`, `$partition`, `$group` and `$instance` are the boards' variables, `${flow:raw}` is the one
flow of a repeated row; `metric` refuses a name that the catalogue lacks.
"""

from __future__ import annotations

from dashboards.alerts import NO_WAY
from dashboards.recording import (
    COPIED,
    COPIED_BYTES,
    EXPECTED,
    FAILOVER,
    FLOW_COPIED,
    FLOW_COPIED_BYTES,
    FLOW_LAG,
    FLOW_LAG_SECONDS,
    FLOW_PRODUCED,
    FRESH,
    GOOD,
    LAG,
    LAG_SECONDS,
    LATENCY_P50,
    LATENCY_P99,
    PRODUCED,
    STATUSES,
    WORST,
    metric,
    quantile,
)
from metrics.objective import OBJECTIVE

JOB = 'job=~"$job"'
FLOW = f'{JOB},source=~"$source",target=~"$target"'
ONE_FLOW = f"{JOB},${{flow:raw}}"  # matchers of the flow that a row is repeated for
PROCESS = f'{JOB},instance=~"$instance"'
TOPIC = f'{FLOW},topic=~"$topic"'
PARTITION = f'{TOPIC},partition=~"$partition"'
GROUP = f'{FLOW},group=~"$group"'
BY_EFFECT = "source, target, effect"
BY_PARTITION = "source, target, topic, partition"
BY_TOPIC = "source, target, topic"
BY_GROUP = "source, target, group"
WELL = "translated|synced"  # what became of a group's offset, where that is as good as it gets
EVERY = "$__rate_interval"
FIRING = 'ALERTS{alertname=~"KafkaMirror.*",alertstate="firing"}'


def of(short: str, where: str = FLOW, *, also: str = "") -> str:
    """Return a selector of one family."""
    return f"{metric(short)}{{{where}{',' + also if also else ''}}}"


def recorded(name: str, where: str = FLOW) -> str:
    """Return a selector of a recorded series."""
    return f"{name}{{{where}}}"


def flows() -> str:
    """The flows that are chosen, each with its name a->b."""
    return f'label_join(group by (source, target) ({of("partitions")}), "flow", "->", "source", "target")'


# --- is it well? ---------------------------------------------------------------------------------------------------


def fresh_ratio() -> str:
    """Share of topic-partitions known to be no more than the objective's 60 s behind, of those that are expected."""
    return f"sum({recorded(GOOD)}) / sum({recorded(EXPECTED)})"


def partitions_not_ok() -> str:
    """Topic-partitions with a verdict other than OK."""
    not_ok = f'{FLOW},status!="ok"'
    return f"sum({recorded(STATUSES, not_ok)})"


def partitions_by_status(where: str = FLOW) -> str:
    """Topic-partitions by verdict."""
    return f"sum by (status) ({recorded(STATUSES, where)})"


def worst_verdict_by_flow() -> str:
    """The worst verdict of each flow's topic-partitions; UNKNOWN while nobody tells of it."""
    return recorded(WORST)


def queries_down() -> str:
    """Streaming queries that have ended."""
    return f"sum(1 - {of('query_active', JOB)})"


def processes_down() -> str:
    """Processes that Prometheus cannot scrape."""
    return f"sum(1 - up{{{JOB}}})"


def processes_up() -> str:
    """Processes that Prometheus can scrape."""
    return f"sum(up{{{PROCESS}}})"


def processes_known() -> str:
    """Processes that Prometheus is to scrape."""
    return f"count(up{{{PROCESS}}})"


def out_of_order() -> str:
    """Processes, lanes and clusters that are down; where no process answers, those processes alone are known."""
    down = processes_down()
    return f"{down} + ({queries_down()} or 0 * {down}) + ({clusters_down()} or 0 * {down})"


def clusters_down() -> str:
    """Clusters that do not answer."""
    return f"sum(1 - max by (cluster) ({of('cluster_up', JOB)}))"


def cluster_up() -> str:
    """Which clusters answer."""
    return f"max by (cluster) ({of('cluster_up', PROCESS)})"


def alerts_firing() -> str:
    """Alerts of this project that fire."""
    return f"count({FIRING}) or vector(0)"


def alerts_by_name() -> str:
    """Firing alerts by name and severity."""
    return f"count by (alertname, severity) ({FIRING})"


# --- how far behind? -------------------------------------------------------------------------------------------------


def lag_seconds_max(where: str = FLOW) -> str:
    """How long the longest waiting record waits."""
    return f"max({recorded(FLOW_LAG_SECONDS) if where == FLOW else of('lag_seconds', where)})"


def lag_seconds_by_flow() -> str:
    """The same by flow."""
    return f"max by (source, target) ({recorded(FLOW_LAG_SECONDS)})"


def lag_seconds_by_topic() -> str:
    """The same by topic."""
    return f"max by ({BY_TOPIC}) ({recorded(LAG_SECONDS, TOPIC)})"


def lag_records_total(where: str = FLOW) -> str:
    """Records that wait."""
    return f"sum({recorded(FLOW_LAG) if where == FLOW else of('lag_records', where)})"


def lag_records_by_flow() -> str:
    """The same by flow."""
    return f"sum by (source, target) ({recorded(FLOW_LAG)})"


def lag_records_by_topic() -> str:
    """The same by topic."""
    return f"sum by ({BY_TOPIC}) ({recorded(LAG, TOPIC)})"


def worst(
    selector: str,
    count: int,
    by: str = BY_PARTITION,
    *,
    joined: str = "max",
    over: str = "max_over_time",
    rank: str = "topk",
) -> str:
    """Those with the largest value in the time shown: the same ones all the while, so that no line jumps to another.

    Args:
        selector: Of one family, without a range.
        count: How many.
        by: The labels that tell them apart.
        joined: What puts several series with these labels together.
        over: What of the time shown decides.
        rank: `bottomk` for the smallest.
    """
    chosen = f"{rank}({count}, {joined} by ({by}) ({over}({selector}[$__range] @ end())))"
    return f"{joined} by ({by}) ({selector} and on ({by}) {chosen})"


def worst_now(short: str, count: int, *, by: str = BY_PARTITION, ranked: str = "lag_seconds", where: str = FLOW) -> str:
    """A family, of those where another one is largest now."""
    return f"max by ({by}) ({of(short, where)} and on ({by}) topk({count}, {of(ranked, where)}))"


def worst_topics(name: str, count: int = 5, *, joined: str = "max") -> str:
    """A recorded series of the topics where it is largest in the time shown."""
    return worst(recorded(name, TOPIC), count, BY_TOPIC, joined=joined)


def worst_groups(short: str, count: int = 5) -> str:
    """A family of the groups where it is largest in the time shown."""
    return worst(of(short, GROUP), count, BY_GROUP)


def topics_behind() -> str:
    """Topics with a record that waits longer than the objective's 60 s."""
    return f"count({lag_seconds_by_topic()} > 60) or vector(0)"


def headroom(count: int = 5, where: str = FLOW) -> str:
    """Topics whose first unreplicated record retention may delete soonest."""
    selector = of("retention_headroom_seconds", where)
    return worst(selector, count, BY_TOPIC, joined="min", over="min_over_time", rank="bottomk")


def headroom_by_topic() -> str:
    """Retention headroom by topic."""
    return f"min by ({BY_TOPIC}) ({of('retention_headroom_seconds', TOPIC)})"


def lost(window: str = "$__range", where: str = FLOW) -> str:
    """Records that retention deleted before they were copied."""
    return f"sum(increase({of('records_lost_total', where)}[{window}]))"


def rewinds(where: str = FLOW) -> str:
    """Positions that had to move."""
    return f"sum(increase({of('offset_rewinds_total', where)}[$__range]))"


def silence_by_topic() -> str:
    """How old the newest replicated record of a topic is."""
    return f"time() - max by ({BY_TOPIC}) ({of('last_record_timestamp_seconds', TOPIC)})"


# --- may the groups fail over? ---------------------------------------------------------------------------------------


def checkpoint_age(by: str = "source, target", where: str = FLOW) -> str:
    """How old the oldest checkpoint is."""
    return f"time() - min by ({by}) ({of('last_checkpoint_timestamp_seconds', where)})"


def failover_answer() -> str:
    """May the readers of every flow that is shown go to its target: 2 GO, 1 GO WITH LOSS, 0 NO."""
    return f"min({recorded(FAILOVER)})"


def followed() -> str:
    """Topic-partitions that a group has offsets on."""
    return f"sum by ({BY_GROUP}) ({of('group_partitions', GROUP)})"


def cannot_fail_over() -> str:
    """Those that the group has no way to go on with on the target; 0 where it has one for all of them."""
    no_way = f'state=~"{NO_WAY}"'
    return f"sum by ({BY_GROUP}) ({of('group_partitions', GROUP, also=no_way)}) or 0 * {followed()}"


def not_synced(count: int = 5) -> str:
    """Topic-partitions of a group whose offset is not as well as can be, by what became of it: where they are most."""
    not_well = f'state!~"{WELL}"'
    return worst(of("group_partitions", GROUP, also=not_well), count, f"{BY_GROUP}, state", joined="sum")


def oldest_checkpoints(count: int = 5) -> str:
    """How old the checkpoints are of the groups where they are oldest at the end of the time shown."""
    selector = of("last_checkpoint_timestamp_seconds", GROUP)
    return f"time() - ({worst(selector, count, BY_GROUP, joined='min', over='last_over_time', rank='bottomk')})"


def reread() -> str:
    """Records that a group would have read again, had it failed over just before its last checkpoint."""
    return f"max by ({BY_GROUP}) ({of('failover_reread_records', GROUP)})"


def checkpoints(short: str, window: str = EVERY) -> str:
    """Checkpoints that were written, or rounds that failed."""
    return f"sum by (source, target) (increase({of(short)}[{window}]))"


def settings_that_differ(by: str = "source, target", where: str = FLOW) -> str:
    """Settings of remote topics that are not what the source's say they should be."""
    return f"sum by ({by}) ({of('config_drift_settings', where)})"


def acls_missing() -> str:
    """ACLs of source topics that the target's topics lack."""
    return f"sum by (source, target) ({of('acl_drift')})"


def drill_steps() -> str:
    """How long each step of the last drill took."""
    return f"max by (source, target, run, step) ({of('drill_step_seconds')})"


def gaps() -> str:
    """Entries of the ledgers of gaps."""
    return f"sum by ({BY_EFFECT}) ({of('gaps')})"


def gap_offsets() -> str:
    """Offsets in the entries of the ledger of gaps, as far as they are known."""
    return f"sum by ({BY_EFFECT}) ({of('gap_offsets')})"


def heartbeat_age() -> str:
    """How long ago the target last took a heartbeat."""
    return f"time() - max by (source, target) ({of('last_heartbeat_timestamp_seconds')})"


# --- how much, how fast? ---------------------------------------------------------------------------------------------


def produced(by: str = "source, target", where: str = FLOW) -> str:
    """Records per second that the source takes in."""
    return f"sum by ({by}) ({recorded(PRODUCED if TOPIC in where else FLOW_PRODUCED, where)})"


def copied(by: str = "source, target", where: str = FLOW) -> str:
    """Records per second that the target acknowledged."""
    return f"sum by ({by}) ({recorded(COPIED if TOPIC in where else FLOW_COPIED, where)})"


def copied_bytes(by: str = "source, target", where: str = FLOW) -> str:
    """Bytes per second that the target acknowledged."""
    return f"sum by ({by}) ({recorded(COPIED_BYTES if TOPIC in where else FLOW_COPIED_BYTES, where)})"


def catch_up_seconds() -> str:
    """How long until level at the present rates; nothing where a topic is not catching up."""
    lag = recorded(LAG, TOPIC)
    return f"{lag} / -(deriv({lag}[15m]) < 0)"


def latency_by_flow(short: str, where: str = FLOW) -> str:
    """The recorded median ("p50") or 99th percentile ("p99") of replication latency."""
    return f"max by (source, target) ({recorded({'p50': LATENCY_P50, 'p99': LATENCY_P99}[short], where)})"


def heat(short: str, where: str = TOPIC) -> str:
    """A histogram over time: its classic buckets, or the native ones that Prometheus 3 converted them to."""
    classic = f"sum by (le) (rate({metric(short)}_bucket{{{where}}}[{EVERY}]))"
    return f"{classic}\nor (sum(rate({metric(short)}{{{where}}}[{EVERY}])) unless on () {classic})"


def status_of_partitions() -> str:
    """The worst partitions' verdicts over time."""
    return worst(of("partition_status", PARTITION), 20)


def band(short: str, part: str, where: str = PARTITION) -> str:
    """Smallest, average or largest of MirrorMaker's measures over the partitions shown."""
    function = {"min": "min", "avg": "avg", "max": "max"}[part]
    return f"{function}({of(f'{short}_{part}', where)})"


def paused(where: str = TOPIC) -> str:
    """Topic-partitions that are paused after an error."""
    return f"sum({of('partition_paused', where)})"


# --- is the engine well? ---------------------------------------------------------------------------------------------


def phase_p99() -> str:
    """Spark's phases around the window, 99th percentile."""
    where = f'{{{PROCESS},phase!~"addBatch|latestOffset|triggerExecution"}}[10m]'
    return quantile(0.99, metric("batch_duration_seconds"), "phase", where)


def window_seconds() -> str:
    """How long windows take, mean."""
    by = f'{{{PROCESS},phase="addBatch"}}[10m]'
    name = metric("batch_duration_seconds")
    native = f"sum by (query) (rate({name}{by}))"
    return (
        f"sum by (query) (rate({name}_sum{by})) / sum by (query) (rate({name}_count{by}))\n"
        f"or histogram_sum({native}) / histogram_count({native})"
    )


def windows_per_minute() -> str:
    """Windows served by slot: each slot serves every window."""
    return f"60 * sum by (source, target, slot) (rate({of('windows_total')}[5m]))"


def turn_wait() -> str:
    """How long windows wait for their lease."""
    return of_slots("turn_wait_seconds")


def spent_on() -> str:
    """Shares of what windows spend their time on."""
    spent = of("slot_seconds_total")
    flow = f"sum by (source, target) (rate({spent}[{EVERY}]))"
    return f"sum by (source, target, spent_on) (rate({spent}[{EVERY}])) / on (source, target) group_left () {flow}"


def read_ahead() -> str:
    """The most that a slot has read and the target has not acknowledged."""
    return of_slots("read_ahead_bytes")


def rate_of_slots(short: str) -> str:
    """A counter of slots, per second."""
    return f"sum by (source, target, slot) (rate({of(short)}[{EVERY}]))"


def of_slots(short: str) -> str:
    """A gauge of slots."""
    return f"max by (source, target, slot) ({of(short)})"


def throttled() -> str:
    """Share of the time that quotas have a flow wait."""
    return f"sum by (source, target, cluster) (rate({of('throttled_seconds_total')}[{EVERY}]))"


def slots_by_process() -> str:
    """Slots that each process serves."""
    return f"sum by (source, target, instance) ({of('slots_owned')})"


def slots() -> str:
    """Slots that a flow's processes share."""
    return f"max by (source, target) ({of('slots')})"


def cluster_clocks() -> str:
    """How far each cluster's clock is ahead of each process' own; below 0, behind."""
    return f"max by (source, target, cluster, instance) ({of('cluster_clock_skew_seconds')})"


def future_timestamps() -> str:
    """How far records' timestamps were ahead of the clock of the process that read them."""
    return f"max by (source, target) ({of('clock_skew_seconds')})"


def conflicts() -> str:
    """1 while processes of a flow have different settings."""
    return f"max by (source, target) ({of('settings_conflict')})"


def verified() -> str:
    """Records found equal, per second."""
    return f"sum by (source, target) (rate({of('verified_records_total')}[{EVERY}]))"


def verify_differences() -> str:
    """Records found different or missing."""
    return f"sum by ({BY_TOPIC}) (increase({of('verify_differences_total')}[{EVERY}]))"


def verify_waiting() -> str:
    """Records that wait to be compared."""
    return f"max by (source, target) ({of('verify_waiting_records')})"


def processes() -> str:
    """Processes that share a flow."""
    return f"max by (source, target) ({of('processes')})"


def handovers(short: str) -> str:
    """Late hand-overs or take-overs."""
    return f"sum by (source, target, slot) (increase({of(short)}[{EVERY}]))"


def restarts() -> str:
    """Streaming queries started again."""
    return f"sum(increase({of('query_restarts_total', PROCESS)}[$__range]))"


def restarts_now() -> str:
    """Restarts as marks in time."""
    return f"changes({of('query_restarts_total', JOB)}[1m]) > 0"


def takeovers_now() -> str:
    """Slots that were taken from a process that never released them, as marks in time."""
    return f"sum by (source, target) (increase({of('takeovers_total')}[1m])) > 0"


def starts_now() -> str:
    """Starts of the mirror's processes as marks in time."""
    return f"changes(process_start_time_seconds{{{JOB}}}[1m]) > 0"


def query_active() -> str:
    """Which streaming queries run."""
    return f"min by (query) ({of('query_active', PROCESS)})"


def listener_events() -> str:
    """What Spark tells the listener."""
    return f"sum by (event) (rate({of('listener_events_total', PROCESS)}[{EVERY}]))"


def listener_errors() -> str:
    """Progress events that were not understood."""
    return f"sum(increase({of('listener_errors_total', PROCESS)}[$__range]))"


def poll_seconds() -> str:
    """What a lag poll costs."""
    return f"max by (source, target) ({of('poll_duration_seconds')})"


def poll_age() -> str:
    """How old lag is."""
    return f"time() - max by (source, target) ({of('last_poll_timestamp_seconds')})"


def report_age() -> str:
    """How old the newest replication report is."""
    return f"time() - max by (source, target) ({of('last_progress_timestamp_seconds')})"


def poll_errors() -> str:
    """Lag polls that failed."""
    return f"sum by (source, target) (increase({of('poll_errors_total')}[{EVERY}]))"


def series(short: str) -> str:
    """Series exposed, or folded away by the cap."""
    return f"sum({of(short, PROCESS)})"


def scrape_seconds() -> str:
    """What a scrape takes."""
    return f"max by (instance) (scrape_duration_seconds{{{PROCESS}}})"


def driver_cpu() -> str:
    """Processor time of the driver's Python process."""
    return f"rate(process_cpu_seconds_total{{{PROCESS}}}[{EVERY}])"


def driver_memory() -> str:
    """Resident memory of the driver's Python process."""
    return f"process_resident_memory_bytes{{{PROCESS}}}"


def builds() -> str:
    """What runs where."""
    return f"count by (version, spark, python) ({of('build_info', PROCESS)})"


# --- is the objective kept? ------------------------------------------------------------------------------------------


def budget_left() -> str:
    """Share of the month's freshness budget that is left; below 0 it is overspent."""
    good, expected = (f"sum(sum_over_time({recorded(name)}[30d]))" for name in (GOOD, EXPECTED))
    return f"1 - (1 - {good} / {expected}) / {1 - OBJECTIVE:.4g}"


def burn(window: str) -> str:
    """How many times too fast the budget burns over a window."""
    good, expected = (
        f"sum by (source, target) (sum_over_time({recorded(name)}[{window}]))" for name in (GOOD, EXPECTED)
    )
    return f"(1 - {good} / {expected}) / {1 - OBJECTIVE:.4g}"


def fresh_by_flow() -> str:
    """Share of fresh topic-partitions by flow."""
    return f"avg by (source, target) ({recorded(FRESH)})"
