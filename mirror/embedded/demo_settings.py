"""Hold the settings file of the demos, with placeholders for their values."""

from __future__ import annotations

SETTINGS = """\
clusters = primary, backup
primary.bootstrap.servers = {primary}
backup.bootstrap.servers = {backup}
primary->backup.enabled = true
primary->backup.topics = demo\\\\..*
replication.factor = 1
checkpoints.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
tasks.max = 2
refresh.topics.interval.seconds = 5
mirror.metrics.listen = 127.0.0.1:{port}
mirror.state.dir = {state}
mirror.poll.interval.ms = 1000
mirror.window.ms = {window_ms}
"""
# Appended for a demo of identical offsets; its load is written in transactions.
IDENTICAL = """\
primary->backup.mirror.offsets = identical
primary.consumer.isolation.level = read_committed
"""
# Appended for a demo of switch and failback; the last occurrence of a key counts.
BOTH_WAYS = """\
backup->primary.enabled = true
backup->primary.topics = demo\\\\..*
refresh.topics.interval.seconds = 2
emit.checkpoints.interval.seconds = 5
"""
