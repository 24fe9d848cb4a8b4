"""Lag as operators see it: one row per group and partition, read from the clusters."""
