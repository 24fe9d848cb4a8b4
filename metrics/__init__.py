"""Define the metrics and export them to Prometheus."""
