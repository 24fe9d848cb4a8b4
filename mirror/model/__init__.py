"""What is replicated and how it is written down: plans, record batches, offset maps, reports. Pure."""
