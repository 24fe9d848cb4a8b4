"""Generated Grafana boards and alerting rules."""
