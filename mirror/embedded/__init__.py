"""Provide embedded Kafka clusters and a load for the demo, tests and benchmarks."""
