"""Manage flows in the driver: their topics, first positions, heartbeats and upkeep."""
