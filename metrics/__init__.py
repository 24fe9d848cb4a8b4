"""Define the metrics: what is measured, and how it reaches Prometheus."""
