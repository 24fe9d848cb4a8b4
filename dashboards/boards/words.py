"""Hold legends, steps and texts that several dashboards use."""

from __future__ import annotations

from dashboards.alerts import CHECKPOINT_STALE_S
from dashboards.panels import BAD, GOOD, WARN
from metrics.objective import FRESH_S, OBJECTIVE

BEHIND = ((None, GOOD), (30.0, WARN), (float(FRESH_S), BAD))
SHARE = ((None, BAD), (0.99, WARN), (OBJECTIVE, GOOD))
CHECKPOINT = ((None, GOOD), (120.0, WARN), (float(CHECKPOINT_STALE_S), BAD))
HEADROOM = ((None, BAD), (1800.0, WARN), (7200.0, GOOD))
FLOW = "{{source}}->{{target}}"
GROUP = f"{FLOW} {{{{group}}}}"
TOPIC = "{{topic}}"
PARTITION = "{{topic}}-{{partition}}"
NO_DELETION = "topics without retention limits have no headroom"
NO_ALERT = "no alert is firing"
NO_GROUP = "no consumer group of the source has offsets on a replicated topic"
NO_LEDGER = "the ledgers cannot be read, or no process leads these flows"
NO_GAP = "no gap was found yet, or the ledgers cannot be read"
NO_DRILL = "drills are disabled (mirror.drill.enabled), or none has run yet"
NO_CHECKPOINT = "checkpoints are disabled (emit.checkpoints.enabled = false)"
NOT_COMPARED = "settings and ACLs were not compared yet"
NO_HEARTBEAT = "heartbeats are disabled (emit.heartbeats.enabled = false)"
