"""Hold the legends, steps and words that boards share."""

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
NO_DELETION = "topics whose retention deletes nothing have no headroom"
NO_ALERT = "nothing fires while all is well"
NO_GROUP = "no consumer group of the source has offsets on a mirrored topic"
NO_LEDGER = "the ledgers cannot be read, or no process leads these flows"
NO_GAP = "no gap was found yet, or the ledgers cannot be read"
NO_DRILL = "drills are off (mirror.drill.enabled), or none has been conducted yet"
NO_CHECKPOINT = "none are made with emit.checkpoints.enabled = false"
NOT_COMPARED = "nothing was compared yet"
NO_HEARTBEAT = "none are written with emit.heartbeats.enabled = false"
