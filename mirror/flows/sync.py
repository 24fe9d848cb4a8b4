"""Copy the source's topic settings and ACLs to remote topics."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

from mirror.config.settings import Flow
from mirror.flows.topics import TopicPair
from mirror.kafka.cluster import Cluster
from mirror.policy.topic_acls import Acl, AclDecision, judged, missing
from mirror.policy.topic_configs import Change, described
from mirror.runtime.logs import first_few

log = logging.getLogger("mirror")
SETTLE_S = 1.0
Drift = dict[str, int]  # settings that differ, by remote topic


def sync_configs(
    flow: Flow, topics: list[TopicPair], source: Cluster, target: Cluster, *, present: Collection[str]
) -> Drift:
    """Set the settings of remote topics as the flow requires, if it syncs settings.

    If a target refuses one setting of a request, it refuses them all. Then each setting is sent alone.

    Returns:
        For each remote topic, how many settings still differ: refused (logged, and retried next time), or not synced by
        configuration. Topics whose settings cannot be read are left out, and logged.
    """
    drift = {}
    for topic, changes in _compared(flow, topics, source, target, present=present).items():
        is_altered = bool(changes) and flow.sync_configs.enabled
        drift[topic] = len(_alter(flow, target, topic, changes) if is_altered else changes)
    if unread := sorted({topic.remote for topic in topics if topic.remote in present} - drift.keys()):
        level = logging.WARNING if flow.sync_configs.enabled else logging.DEBUG
        log.log(
            level,
            "%s: settings cannot be read, and are not carried over: %s. Grant DESCRIBE_CONFIGS",
            flow.name,
            first_few(unread),
        )
    return drift


def _alter(flow: Flow, target: Cluster, topic: str, changes: list[Change]) -> list[Change]:
    """Change settings of a remote topic, as many as the target accepts; return the others."""
    objection = target.alter(topic, changes)
    if not objection:
        refused = {}
    elif len(changes) == 1:
        refused = {changes[0]: objection}
    else:
        refused = {change: why for change in changes if (why := target.alter(topic, [change]))}
    for change, why in refused.items():
        log.warning(
            "%s: %s cannot be set on %s of %s: %s. If it is meant to differ, name it in config.properties.exclude",
            flow.name,
            described([change]),
            topic,
            flow.target.alias,
            why,
        )
    if done := [change for change in changes if change not in refused]:
        log.info("%s: %s changed on %s: %s", flow.name, topic, flow.target.alias, described(done))
    return list(refused)


def config_changes(
    flow: Flow, topics: list[TopicPair], source: Cluster, target: Cluster, *, present: Collection[str]
) -> dict[str, list[Change]]:
    """Return the changes that `sync_configs` would make to topics in `present`, by remote topic."""
    found = _compared(flow, topics, source, target, present=present)
    return {topic: changes for topic, changes in found.items() if changes}


def _compared(
    flow: Flow, topics: list[TopicPair], source: Cluster, target: Cluster, *, present: Collection[str]
) -> dict[str, list[Change]]:
    """Return the changes for each remote topic whose settings both clusters report; empty if equal."""
    theirs = source.configs(topic.source.name for topic in topics)
    ours = target.configs(topic.remote for topic in topics if topic.remote in present)
    return {
        topic.remote: flow.configs.changes(theirs[topic.source.name], ours[topic.remote])
        for topic in topics
        if topic.source.name in theirs and topic.remote in ours
    }


def acl_changes(topics: list[TopicPair], source: Cluster, target: Cluster) -> tuple[list[AclDecision], list[Acl]]:
    """Return the decision on each source ACL, and the ACLs that the target lacks."""
    verdicts = judged(source.topic_acls(), {topic.source.name: topic.remote for topic in topics})
    wants_any = any(verdict.wanted is not None for verdict in verdicts)
    return verdicts, missing(verdicts, target.topic_acls() if wants_any else ())


def sync_acls(flow: Flow, topics: list[TopicPair], source: Cluster, target: Cluster) -> dict[Acl, str]:
    """Add the source topics' ACLs to remote topics if the flow syncs ACLs; remove none.

    Returns:
        The ACLs that are still missing, each with the target's objection, or "" if the flow does not sync ACLs.
    """
    _, lacking = acl_changes(topics, source, target)
    if not flow.sync_acls.enabled:
        return dict.fromkeys(lacking, "")
    if lacking:  # a switch may be setting up its fence: the fence's ACLs must not be copied to the target
        time.sleep(SETTLE_S)
        lacking = [acl for acl in acl_changes(topics, source, target)[1] if acl in lacking]
    answers = target.add_acls(lacking)
    for acl, objection in answers.items():
        if not objection:
            log.info("%s: added on %s: %s", flow.name, flow.target.alias, acl)
    return {acl: objection for acl, objection in answers.items() if objection}
