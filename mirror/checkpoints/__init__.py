"""Translate consumer group offsets to the target: checkpoints, and the target's groups."""
