"""Send requests to one Kafka cluster: to its control plane, for its groups, for its record batches."""
