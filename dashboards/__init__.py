"""Generate Grafana boards and Prometheus rules."""
