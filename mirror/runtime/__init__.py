"""Provide the log, the clock, signals, text and folders to all packages. Nothing here depends on Kafka."""
