"""Serve every room: log, clock, signals, text, folders. Knows nothing of Kafka."""
