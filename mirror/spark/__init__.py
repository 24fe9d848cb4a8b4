"""Run replication and checkpoints as Spark streaming queries."""
