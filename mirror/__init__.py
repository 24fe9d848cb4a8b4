"""Replicate topics between Kafka clusters, on Spark."""

__version__ = "0.1.0"
