"""Define the dashboards' Prometheus queries as functions over the catalogue. Pure.

`$job`, `$source`, `$target`, `$topic`, `$partition`, `$group` and `$instance` are the dashboards' variables; `${flow:raw}` is the
flow of a repeated row. `metric` refuses a name that is not in the catalogue.
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
ONE_FLOW = f"{JOB},${{flow:raw}}"  # matchers of a repeated row's flow
PROCESS = f'{JOB},instance=~"$instance"'
TOPIC = f'{FLOW},topic=~"$topic"'
PARTITION = f'{TOPIC},partition=~"$partition"'
GROUP = f'{FLOW},group=~"$group"'
BY_EFFECT = "source, target, effect"
BY_PARTITION = "source, target, topic, partition"
BY_TOPIC = "source, target, topic"
BY_GROUP = "source, target, group"
HEALTHY = "translated|synced"  # states of a group's offset
EVERY = "$__rate_interval"
FIRING = 'ALERTS{alertname=~"KafkaMirror.*",alertstate="firing"}'


def of(short: str, where: str = FLOW, *, also: str = "") -> str:
    """Return a selector of one family."""
    return f"{metric(short)}{{{where}{',' + also if also else ''}}}"


def recorded(name: str, where: str = FLOW) -> str:
    """Return a selector of a recorded series."""
    return f"{name}{{{where}}}"


def flows() -> str:
    """The selected flows, each with its name a->b."""
    return f'label_join(group by (source, target) ({of("partitions")}), "flow", "->", "source", "target")'


# --- is it healthy? ------------------------------------------------------------------------------------------------


def fresh_ratio() -> str:
    """Share of expected partitions that are known to be fresh."""
    return f"sum({recorded(GOOD)}) / sum({recorded(EXPECTED)})"


def partitions_not_ok() -> str:
    """Partitions with a status other than OK."""
    not_ok = f'{FLOW},status!="ok"'
    return f"sum({recorded(STATUSES, not_ok)})"


def partitions_by_status(where: str = FLOW) -> str:
    """Partitions by status."""
    return f"sum by (status) ({recorded(STATUSES, where)})"


def worst_status_by_flow() -> str:
    """The worst status of each flow's partitions; UNKNOWN while no process reports the flow."""
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
    """Processes that Prometheus should scrape."""
    return f"count(up{{{PROCESS}}})"


def out_of_order() -> str:
    """Processes, lanes and clusters that are down; if no process responds, only processes are known."""
    down = processes_down()
    return f"{down} + ({queries_down()} or 0 * {down}) + ({clusters_down()} or 0 * {down})"


def clusters_down() -> str:
    """Clusters that do not respond."""
    return f"sum(1 - max by (cluster) ({of('cluster_up', JOB)}))"


def cluster_up() -> str:
    """1 for clusters that respond, else 0."""
    return f"max by (cluster) ({of('cluster_up', PROCESS)})"


def alerts_firing() -> str:
    """Firing alerts of kafka-mirror."""
    return f"count({FIRING}) or vector(0)"


def alerts_by_name() -> str:
    """Firing alerts by name and severity."""
    return f"count by (alertname, severity) ({FIRING})"


# --- how large is the lag? -------------------------------------------------------------------------------------------


def lag_seconds_max(where: str = FLOW) -> str:
    """How long the longest waiting record has waited."""
    return f"max({recorded(FLOW_LAG_SECONDS) if where == FLOW else of('lag_seconds', where)})"


def lag_seconds_by_flow() -> str:
    """How long the longest waiting record has waited, by flow."""
    return f"max by (source, target) ({recorded(FLOW_LAG_SECONDS)})"


def lag_seconds_by_topic() -> str:
    """How long the longest waiting record has waited, by topic."""
    return f"max by ({BY_TOPIC}) ({recorded(LAG_SECONDS, TOPIC)})"


def lag_records_total(where: str = FLOW) -> str:
    """Waiting records."""
    return f"sum({recorded(FLOW_LAG) if where == FLOW else of('lag_records', where)})"


def lag_records_by_flow() -> str:
    """Waiting records by flow."""
    return f"sum by (source, target) ({recorded(FLOW_LAG)})"


def lag_records_by_topic() -> str:
    """Waiting records by topic."""
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
    """The series with the largest values in the time range.

    The set of series is fixed for the range, so that no line jumps to another series.

    Args:
        selector: A selector of one family, without a range.
        count: Number of series.
        by: The labels that identify a line.
        joined: The operator that aggregates series with the same labels.
        over: The function over the time range by which series are ranked.
        rank: `topk`, or `bottomk` for the smallest values.
    """
    chosen = f"{rank}({count}, {joined} by ({by}) ({over}({selector}[$__range] @ end())))"
    return f"{joined} by ({by}) ({selector} and on ({by}) {chosen})"


def worst_now(short: str, *, by: str = BY_PARTITION, ranked: str = "lag_seconds", where: str = FLOW) -> str:
    """A family, for the 20 label sets with the largest current values of another family."""
    return f"max by ({by}) ({of(short, where)} and on ({by}) topk(20, {of(ranked, where)}))"


def worst_topics(name: str, *, joined: str = "max") -> str:
    """A recorded series, for the 5 topics with its largest values in the time range."""
    return worst(recorded(name, TOPIC), 5, BY_TOPIC, joined=joined)


def worst_groups(short: str) -> str:
    """A family, for the 5 groups with its largest values in the time range."""
    return worst(of(short, GROUP), 5, BY_GROUP)


def topics_behind() -> str:
    """Topics with a record that has waited longer than the objective's 60 s."""
    return f"count({lag_seconds_by_topic()} > 60) or vector(0)"


def headroom() -> str:
    """The 5 topics whose first unreplicated record retention may delete soonest."""
    selector = of("retention_headroom_seconds", FLOW)
    return worst(selector, 5, BY_TOPIC, joined="min", over="min_over_time", rank="bottomk")


def headroom_by_topic() -> str:
    """Retention headroom by topic."""
    return f"min by ({BY_TOPIC}) ({of('retention_headroom_seconds', TOPIC)})"


def lost(where: str) -> str:
    """Records that retention deleted before they were copied."""
    return f"sum(increase({of('records_lost_total', where)}[$__range]))"


def rewinds(where: str = FLOW) -> str:
    """Positions that were reset."""
    return f"sum(increase({of('offset_rewinds_total', where)}[$__range]))"


def silence_by_topic() -> str:
    """Age of the newest replicated record of a topic."""
    return f"time() - max by ({BY_TOPIC}) ({of('last_record_timestamp_seconds', TOPIC)})"


# --- can the groups fail over? ---------------------------------------------------------------------------------------


def checkpoint_age(by: str = "source, target", where: str = FLOW) -> str:
    """Age of the oldest checkpoint."""
    return f"time() - min by ({by}) ({of('last_checkpoint_timestamp_seconds', where)})"


def failover_answer() -> str:
    """The worst failover answer of the flows shown: 2 GO, 1 GO WITH LOSS, 0 NO."""
    return f"min({recorded(FAILOVER)})"


def switch_ready() -> str:
    """1 if a planned switch of every flow shown can start now, else 0."""
    return f"min({of('switch_ready')})"


def within_objective() -> str:
    """1 if every flow's loss is within its objective, else 0; no value if unknown."""
    return f"min({of('rpo_within_objective')}) unless absent({of('switch_ready')})"


def followed() -> str:
    """Partitions on which a group has offsets."""
    return f"sum by ({BY_GROUP}) ({of('group_partitions', GROUP)})"


def cannot_fail_over() -> str:
    """Partitions without an offset to resume from on the target, by group.

    The value is 0 if every partition has such an offset.
    """
    no_way = f'state=~"{NO_WAY}"'
    return f"sum by ({BY_GROUP}) ({of('group_partitions', GROUP, also=no_way)}) or 0 * {followed()}"


def not_synced() -> str:
    """The 5 largest numbers of partitions without a translated or synced offset, by state."""
    unhealthy = f'state!~"{HEALTHY}"'
    return worst(of("group_partitions", GROUP, also=unhealthy), 5, f"{BY_GROUP}, state", joined="sum")


def oldest_checkpoints() -> str:
    """Age of the 5 oldest checkpoints at the end of the time range, by group."""
    selector = of("last_checkpoint_timestamp_seconds", GROUP)
    return f"time() - ({worst(selector, 5, BY_GROUP, joined='min', over='last_over_time', rank='bottomk')})"


def reread() -> str:
    """Records that a group would have re-read after a failover just before its last checkpoint."""
    return f"max by ({BY_GROUP}) ({of('failover_reread_records', GROUP)})"


def checkpoints(short: str, window: str = EVERY) -> str:
    """Checkpoints that were written, or rounds that failed."""
    return f"sum by (source, target) (increase({of(short)}[{window}]))"


def settings_that_differ(by: str = "source, target", where: str = FLOW) -> str:
    """Settings of remote topics that differ from the source topics'."""
    return f"sum by ({by}) ({of('config_drift_settings', where)})"


def acls_missing() -> str:
    """ACLs of source topics that the target's topics lack."""
    return f"sum by (source, target) ({of('acl_drift')})"


def drill_steps() -> str:
    """Duration of each step of the last drill."""
    return f"max by (source, target, run, step) ({of('drill_step_seconds')})"


def gaps() -> str:
    """Entries of the gap ledgers."""
    return f"sum by ({BY_EFFECT}) ({of('gaps')})"


def gap_offsets() -> str:
    """Offsets in the entries of the gap ledgers, as far as known."""
    return f"sum by ({BY_EFFECT}) ({of('gap_offsets')})"


def heartbeat_age() -> str:
    """How long ago the target last acknowledged a heartbeat."""
    return f"time() - max by (source, target) ({of('last_heartbeat_timestamp_seconds')})"


# --- how much, how fast? ---------------------------------------------------------------------------------------------


def produced(by: str = "source, target", where: str = FLOW) -> str:
    """Records per second that are produced to the source."""
    return f"sum by ({by}) ({recorded(PRODUCED if TOPIC in where else FLOW_PRODUCED, where)})"


def copied(by: str = "source, target", where: str = FLOW) -> str:
    """Records per second that the target acknowledged."""
    return f"sum by ({by}) ({recorded(COPIED if TOPIC in where else FLOW_COPIED, where)})"


def copied_bytes(by: str = "source, target", where: str = FLOW) -> str:
    """Bytes per second that the target acknowledged."""
    return f"sum by ({by}) ({recorded(COPIED_BYTES if TOPIC in where else FLOW_COPIED_BYTES, where)})"


def catch_up_seconds() -> str:
    """Time until lag 0 at the current rates.

    A topic that is not catching up has no value.
    """
    lag = recorded(LAG, TOPIC)
    return f"{lag} / -(deriv({lag}[15m]) < 0)"


def latency_by_flow(short: str, where: str = FLOW) -> str:
    """The recorded median ("p50") or 99th percentile ("p99") of replication latency."""
    return f"max by (source, target) ({recorded({'p50': LATENCY_P50, 'p99': LATENCY_P99}[short], where)})"


def heat(short: str) -> str:
    """A histogram over time: classic buckets, or Prometheus 3's native ones."""
    classic = f"sum by (le) (rate({metric(short)}_bucket{{{TOPIC}}}[{EVERY}]))"
    return f"{classic}\nor (sum(rate({metric(short)}{{{TOPIC}}}[{EVERY}])) unless on () {classic})"


def status_of_partitions() -> str:
    """Statuses of the worst partitions over time."""
    return worst(of("partition_status", PARTITION), 20)


def band(short: str, part: str) -> str:
    """Smallest, average or largest value of a MirrorMaker measure over the partitions shown."""
    function = {"min": "min", "avg": "avg", "max": "max"}[part]
    return f"{function}({of(f'{short}_{part}', PARTITION)})"


def paused() -> str:
    """Partitions that are paused after an error."""
    return f"sum({of('partition_paused', TOPIC)})"


# --- is the engine healthy? ------------------------------------------------------------------------------------------


def phase_p99() -> str:
    """Duration of Spark's phases around the window, 99th percentile."""
    where = f'{{{PROCESS},phase!~"addBatch|latestOffset|triggerExecution"}}[10m]'
    return quantile(0.99, metric("batch_duration_seconds"), "phase", where)


def window_seconds() -> str:
    """Mean duration of windows."""
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
    """Shares of windows' time, by what they spend it on."""
    spent = of("slot_seconds_total")
    flow = f"sum by (source, target) (rate({spent}[{EVERY}]))"
    return f"sum by (source, target, spent_on) (rate({spent}[{EVERY}])) / on (source, target) group_left () {flow}"


def read_ahead() -> str:
    """Largest amount of bytes that a slot has read and the target has not acknowledged."""
    return of_slots("read_ahead_bytes")


def rate_of_slots(short: str) -> str:
    """A counter of slots, per second."""
    return f"sum by (source, target, slot) (rate({of(short)}[{EVERY}]))"


def of_slots(short: str) -> str:
    """A gauge of slots."""
    return f"max by (source, target, slot) ({of(short)})"


def throttled() -> str:
    """Share of the time for which quotas throttle a flow."""
    return f"sum by (source, target, cluster) (rate({of('throttled_seconds_total')}[{EVERY}]))"


def slots_by_process() -> str:
    """Slots that each process serves."""
    return f"sum by (source, target, instance) ({of('slots_owned')})"


def slots() -> str:
    """Slots that a flow's processes share."""
    return f"max by (source, target) ({of('slots')})"


def cluster_clocks() -> str:
    """How far each cluster's clock is ahead of each process' clock.

    The value is negative if the cluster's clock is behind.
    """
    return f"max by (source, target, cluster, instance) ({of('cluster_clock_skew_seconds')})"


def future_timestamps() -> str:
    """How far record timestamps were ahead of the clock of the process that read them."""
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
    """Records that are not compared yet."""
    return f"max by (source, target) ({of('verify_waiting_records')})"


def processes() -> str:
    """Processes that share a flow."""
    return f"max by (source, target) ({of('processes')})"


def handovers(short: str) -> str:
    """Late handovers or takeovers."""
    return f"sum by (source, target, slot) (increase({of(short)}[{EVERY}]))"


def restarts() -> str:
    """Restarts of streaming queries."""
    return f"sum(increase({of('query_restarts_total', PROCESS)}[$__range]))"


def restarts_now() -> str:
    """Restarts of streaming queries as annotations."""
    return f"changes({of('query_restarts_total', JOB)}[1m]) > 0"


def takeovers_now() -> str:
    """Takeovers of leases that were never released, as annotations."""
    return f"sum by (source, target) (increase({of('takeovers_total')}[1m])) > 0"


def starts_now() -> str:
    """Starts of kafka-mirror processes as annotations."""
    return f"changes(process_start_time_seconds{{{JOB}}}[1m]) > 0"


def query_active() -> str:
    """1 for streaming queries that run, else 0."""
    return f"min by (query) ({of('query_active', PROCESS)})"


def listener_events() -> str:
    """Spark's streaming events per second."""
    return f"sum by (event) (rate({of('listener_events_total', PROCESS)}[{EVERY}]))"


def listener_errors() -> str:
    """Progress events that could not be read."""
    return f"sum(increase({of('listener_errors_total', PROCESS)}[$__range]))"


def poll_seconds() -> str:
    """Duration of a lag poll."""
    return f"max by (source, target) ({of('poll_duration_seconds')})"


def poll_age() -> str:
    """Age of the lag measurement."""
    return f"time() - max by (source, target) ({of('last_poll_timestamp_seconds')})"


def report_age() -> str:
    """Age of the newest replication report."""
    return f"time() - max by (source, target) ({of('last_progress_timestamp_seconds')})"


def poll_errors() -> str:
    """Lag polls that failed."""
    return f"sum by (source, target) (increase({of('poll_errors_total')}[{EVERY}]))"


def series(short: str) -> str:
    """Series that are exposed, or that the cap dropped."""
    return f"sum({of(short, PROCESS)})"


def scrape_seconds() -> str:
    """Duration of a scrape."""
    return f"max by (instance) (scrape_duration_seconds{{{PROCESS}}})"


def driver_cpu() -> str:
    """Processor time of the driver's Python process."""
    return f"rate(process_cpu_seconds_total{{{PROCESS}}}[{EVERY}])"


def driver_memory() -> str:
    """Resident memory of the driver's Python process."""
    return f"process_resident_memory_bytes{{{PROCESS}}}"


def builds() -> str:
    """Processes by version."""
    return f"count by (version, spark, python) ({of('build_info', PROCESS)})"


# --- is the objective met? -------------------------------------------------------------------------------------------


def budget_left() -> str:
    """Share of the month's freshness budget that is left; below 0 it is overspent."""
    good, expected = (f"sum(sum_over_time({recorded(name)}[30d]))" for name in (GOOD, EXPECTED))
    return f"1 - (1 - {good} / {expected}) / {1 - OBJECTIVE:.4g}"


def burn(window: str) -> str:
    """Burn rate of the budget over a window; 1 is the allowance."""
    good, expected = (
        f"sum by (source, target) (sum_over_time({recorded(name)}[{window}]))" for name in (GOOD, EXPECTED)
    )
    return f"(1 - {good} / {expected}) / {1 - OBJECTIVE:.4g}"


def fresh_by_flow() -> str:
    """Share of fresh partitions by flow."""
    return f"avg by (source, target) ({recorded(FRESH)})"
