"""Pure data of replication: plans, record batches, offset maps, reports."""
