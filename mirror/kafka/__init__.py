"""Requests to one Kafka cluster: its control plane, its groups, and its record batches."""
