"""Embedded Kafka clusters and a load for demo, tests and benchmarks."""
