"""Compare the target's records with the source's along the offset map, on Spark."""
