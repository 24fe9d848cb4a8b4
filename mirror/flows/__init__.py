"""Flows as the driver sees them: their topics, positions at the start, heartbeats and upkeep."""
