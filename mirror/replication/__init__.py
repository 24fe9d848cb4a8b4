"""Move record batches from source to target, as Spark streaming queries."""
