"""Move record batches from source to target, window by window."""
