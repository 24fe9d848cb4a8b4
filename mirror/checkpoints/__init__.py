"""Offsets of consumer groups, carried to the target: the offset map read back, checkpoints, group offsets."""
