"""Talk to one Kafka cluster: its control plane, its groups, record batches from it and to it."""
