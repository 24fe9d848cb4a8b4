"""Define the freshness objective of dashboards, rules and the lag inspector."""

FRESH_S = 60  # a partition is fresh if its first unreplicated record has waited at most this long
OBJECTIVE = 0.999  # share of partitions that are fresh, over 30 days
