"""Metrics: what is measured, and how it reaches Prometheus."""
