"""Compare what is on the target with what it was made of, along the offset map, on Spark."""
