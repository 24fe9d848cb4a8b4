"""The mirroring appliance: replication between Kafka clusters, on Spark."""
