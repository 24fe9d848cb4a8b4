"""Lag as people look at it: one row per group and topic-partition, from the clusters themselves."""
