"""Translate consumer group offsets to the target: write checkpoints, and move the target's groups."""
